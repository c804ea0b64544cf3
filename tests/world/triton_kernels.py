import os,sys,importlib,inspect
import triton, triton.language as tl
from triton.compiler import ASTSource
from triton.backends.compiler import GPUTarget
out=sys.argv[1]
@triton.jit
def matmul(A,B,C,M,N,K,sa,sb,sc,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr,ALLOW:tl.constexpr):
    p=tl.program_id(0); q=tl.program_id(1)
    rm=p*BM+tl.arange(0,BM); rn=q*BN+tl.arange(0,BN); rk=tl.arange(0,BK)
    a=A+rm[:,None]*sa+rk[None,:]; b=B+rk[:,None]*sb+rn[None,:]
    acc=tl.zeros((BM,BN),tl.float32)
    for k in range(0,K,BK):
        acc=tl.dot(tl.load(a,mask=(rk[None,:]<K-k),other=0.0),tl.load(b,mask=(rk[:,None]<K-k),other=0.0),acc,allow_tf32=ALLOW); a+=BK; b+=BK*sb
    tl.store(C+rm[:,None]*sc+rn[None,:],acc.to(C.dtype.element_ty),mask=(rm[:,None]<M)&(rn[None,:]<N))
@triton.jit
def softmax(X,Y,n,B:tl.constexpr):
    r=tl.program_id(0); i=tl.arange(0,B); x=tl.load(X+r*n+i,mask=i<n,other=-float('inf')).to(tl.float32)
    x=x-tl.max(x,0); e=tl.exp(x); tl.store(Y+r*n+i,(e/tl.sum(e,0)).to(Y.dtype.element_ty),mask=i<n)
@triton.jit
def scan(X,Y,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0); tl.store(Y+i,tl.cumsum(x,0),mask=i<n)
@triton.jit
def sort_(X,Y,n,B:tl.constexpr):
    i=tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0); tl.store(Y+i,tl.sort(x),mask=i<n)
@triton.jit
def hist(X,Y,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0); h=tl.histogram(x,64); tl.atomic_add(Y+tl.arange(0,64),h)
@triton.jit
def mathf(X,Y,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0.5).to(tl.float32)
    y=tl.sin(x)+tl.cos(x)*tl.log(x)+tl.sqrt_rn(x)+tl.rsqrt(x)+tl.exp2(x)+tl.log2(x)+tl.erf(x)+tl.floor(x)+tl.ceil(x)+tl.div_rn(x,y if False else 3.0)+tl.fma(x,x,x)
    tl.store(Y+i,y.to(Y.dtype.element_ty),mask=i<n)
@triton.jit
def intm(X,Y,n,d,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=1)
    y=(x//d)+(x%d)*(x<<3)^(x>>2)&(x|7)+tl.abs(x)+tl.where(x>d,x,-x)+tl.minimum(x,d)*tl.maximum(x,7)
    tl.store(Y+i,y,mask=i<n)
@triton.jit
def atom(X,Y,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0); tl.atomic_max(Y+(i%8),x,mask=i<n,sem='acq_rel',scope='gpu'); tl.atomic_cas(Y+9+i%4,x,x)
    tl.debug_barrier(); tl.atomic_xchg(Y+20,tl.max(x,0))
@triton.jit
def rng(Y,seed,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); tl.store(Y+i,tl.randn(seed,i),mask=i<n)
@triton.jit
def printk(X,n,B:tl.constexpr):
    i=tl.program_id(0)*B+tl.arange(0,B); x=tl.load(X+i,mask=i<n,other=0); tl.device_print("x",x); tl.device_assert(x>0,"pos")
@triton.jit
def attn(Q,K,V,O,n,sm,BM:tl.constexpr,BN:tl.constexpr,D:tl.constexpr):
    m=tl.program_id(0)*BM+tl.arange(0,BM); d=tl.arange(0,D); q=tl.load(Q+m[:,None]*D+d[None,:])
    mi=tl.full((BM,),-float('inf'),tl.float32); li=tl.zeros((BM,),tl.float32); acc=tl.zeros((BM,D),tl.float32)
    for s in range(0,n,BN):
        c=s+tl.arange(0,BN); k=tl.load(K+c[:,None]*D+d[None,:]); qk=tl.dot(q,tl.trans(k))*sm
        mn=tl.maximum(mi,tl.max(qk,1)); p=tl.exp2(qk-mn[:,None]); al=tl.exp2(mi-mn); li=li*al+tl.sum(p,1); acc=acc*al[:,None]
        v=tl.load(V+c[:,None]*D+d[None,:]); acc=tl.dot(p.to(v.dtype),v,acc); mi=mn
    tl.store(O+m[:,None]*D+d[None,:],(acc/li[:,None]).to(O.dtype.element_ty))
@triton.jit
def tma(A,B,C,M,N,K,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr):
    a=tl.make_tensor_descriptor(A,[M,K],[K,1],[BM,BK]); b=tl.make_tensor_descriptor(B,[N,K],[K,1],[BN,BK]); c=tl.make_tensor_descriptor(C,[M,N],[N,1],[BM,BN])
    p=tl.program_id(0); q=tl.program_id(1); acc=tl.zeros((BM,BN),tl.float32)
    for k in range(0,K,BK): acc=tl.dot(a.load([p*BM,k]),b.load([q*BN,k]).T,acc)
    c.store([p*BM,q*BN],acc.to(tl.float16))
@triton.jit
def dots(A,B,SA,SB,C,BM:tl.constexpr,BN:tl.constexpr,BK:tl.constexpr,F:tl.constexpr):
    m=tl.arange(0,BM); n=tl.arange(0,BN); k=tl.arange(0,BK//2 if F=='e2m1' else BK); s=tl.arange(0,BK//32)
    a=tl.load(A+m[:,None]*256+k[None,:]); b=tl.load(B+k[:,None]*256+n[None,:])
    sa=tl.load(SA+m[:,None]*16+s[None,:]); sb=tl.load(SB+n[:,None]*16+s[None,:])
    tl.store(C+m[:,None]*256+n[None,:],tl.dot_scaled(a,sa,F,b,sb,F))
jobs=[]
for T in ('fp16','bf16','fp32','fp8e4nv','fp8e5','i8'):
    o='i32' if T=='i8' else 'fp32'
    for (bm,bn,bk,w,st) in ((64,64,32,4,3),(128,128,64,8,4),(128,256,64,8,2),(16,16,64,4,1)):
        if T=='i8': continue
        jobs.append((f'matmul_{T}_{bm}_{bn}_{w}',matmul,{'A':'*'+T,'B':'*'+T,'C':'*fp32','M':'i32','N':'i32','K':'i32','sa':'i32','sb':'i32','sc':'i32'},dict(BM=bm,BN=bn,BK=bk,ALLOW=True),dict(num_warps=w,num_stages=st)))
for T in ('fp32','fp16','bf16'):
    for B in (128,1024,4096):
        jobs.append((f'softmax_{T}_{B}',softmax,{'X':'*'+T,'Y':'*'+T,'n':'i32'},dict(B=B),dict(num_warps=4 if B<2048 else 8)))
    jobs.append((f'mathf_{T}',mathf,{'X':'*'+T,'Y':'*'+T,'n':'i32'},dict(B=512),{}))
for T in ('i32','fp32','i64','i16','i8','fp64'):
    jobs.append((f'scan_{T}',scan,{'X':'*'+T,'Y':'*'+T,'n':'i32'},dict(B=1024),{}))
    jobs.append((f'sort_{T}',sort_,{'X':'*'+T,'Y':'*'+T,'n':'i32'},dict(B=256),{}))
for T in ('i32','i64','i16','u32','u64','i8'):
    jobs.append((f'intm_{T}',intm,{'X':'*'+T,'Y':'*'+T,'n':'i32','d':T},dict(B=512),{}))
for T in ('i32','fp32','u64','i64'): jobs.append((f'atom_{T}',atom,{'X':'*'+T,'Y':'*'+T,'n':'i32'},dict(B=256),{}))
jobs.append(('hist',hist,{'X':'*i32','Y':'*i32','n':'i32'},dict(B=512),{}))
jobs.append(('rng',rng,{'Y':'*fp32','seed':'i32','n':'i32'},dict(B=512),{}))
jobs.append(('printk',printk,{'X':'*i32','n':'i32'},dict(B=128),dict(debug=True)))
for T in ('fp16','bf16'):
    for D in (64,128): jobs.append((f'attn_{T}_{D}',attn,{'Q':'*'+T,'K':'*'+T,'V':'*'+T,'O':'*'+T,'n':'i32','sm':'fp32'},dict(BM=128,BN=64,D=D),dict(num_warps=8 if D==128 else 4,num_stages=3)))
jobs.append(('tma',tma,{'A':'*fp16','B':'*fp16','C':'*fp16','M':'i32','N':'i32','K':'i32'},dict(BM=128,BN=128,BK=64),dict(num_warps=8,num_stages=3)))
for F in ('e4m3','e2m1'): jobs.append((f'dots_{F}',dots,{'A':'*u8','B':'*u8','SA':'*u8','SB':'*u8','C':'*fp32'},dict(BM=128,BN=128,BK=128,F=F),{}))
for cc in (80,89,90,100,120):
    for name,fn,sig,const,opt in jobs:
        sig=dict(sig); sig.update({k:'constexpr' for k in const})
        pid=os.fork()
        if pid==0:
            try:
                import signal; signal.alarm(100)
                k=triton.compile(ASTSource(fn=fn,signature=sig,constexprs=const),target=GPUTarget('cuda',cc,32),options=opt)
                open(f'{out}/{name}.{cc}.ptx','w').write(k.asm['ptx'])
            except BaseException as e: print(name,cc,'ERR',type(e).__name__,str(e)[:150].replace('\n',' ')); sys.stdout.flush()
            os._exit(0)
        os.waitpid(pid,0)

# LLVM's NVPTX tests -> PTX by the RUN lines that end in ptxas-verify; llvmlite is llc.
import sys,re,os,glob,subprocess,json
import llvmlite.binding as b
src,out=sys.argv[1],sys.argv[2]
os.makedirs(out,exist_ok=True)
b.initialize_all_targets(); b.initialize_all_asmprinters()
def one(f):
    text=open(f).read()
    lines=re.findall(r'RUN:\s*(.*)',re.sub(r'\\\n\s*;\s*RUN:\s*','',text))
    n=0
    for l in lines:
        if 'ptxas-verify' not in l or 'llc' not in l: continue
        seg=[s for s in l.split('|') if 'llc' in s][0]
        cpu=(re.findall(r'-{1,2}mcpu=(\S+)',seg) or ['sm_75'])[0]
        attr=','.join(re.findall(r'-{1,2}mattr=(\S+)',seg))
        arch=(re.findall(r'-arch=(sm_\w+)',l) or [cpu])[0]
        triple=(re.findall(r'-{1,2}mtriple=(\S+)',seg) or ['nvptx64-nvidia-cuda'])[0]
        opt=int((re.findall(r'-O(\d)',seg) or ['2'])[0])
        name=os.path.basename(f)[:-3]+f'.{n}.'+arch
        n+=1
        pid=os.fork()
        if pid==0:
            try:
                m=b.parse_assembly(text)
                t=b.Target.from_triple(triple if '64' in triple else 'nvptx64-nvidia-cuda')
                tm=t.create_target_machine(cpu=cpu,features=attr,opt=opt)
                p=tm.emit_assembly(m)
                open(os.path.join(out,name+'.ptx'),'w').write(p)
                os._exit(0)
            except BaseException as e:
                print(name,'ERR',str(e)[:100]); sys.stdout.flush(); os._exit(1)
        os.waitpid(pid,0)
for f in sorted(glob.glob(src+'/*.ll')): one(f)

#include <cub/block/block_scan.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/warp/warp_merge_sort.cuh>
#include <cuda/std/atomic>
#include <cuda/atomic>
#include <cuda/std/complex>
template<class T> __device__ void scan(T*x){ using S=cub::BlockScan<T,128>; __shared__ typename S::TempStorage t; T v=x[threadIdx.x]; S(t).ExclusiveSum(v,v); x[threadIdx.x]=v; }
extern "C" __global__ void scan_i(int*x){scan(x);} extern "C" __global__ void scan_d(double*x){scan(x);}
extern "C" __global__ void red(float*x){ using R=cub::BlockReduce<float,256,cub::BLOCK_REDUCE_RAKING>; __shared__ R::TempStorage t; float v=R(t).Sum(x[threadIdx.x]); if(!threadIdx.x) x[0]=v; }
extern "C" __global__ void srt(unsigned long long*x){ using R=cub::BlockRadixSort<unsigned long long,128,4>; __shared__ R::TempStorage t; unsigned long long k[4]; for(int i=0;i<4;i++)k[i]=x[threadIdx.x*4+i]; R(t).Sort(k); for(int i=0;i<4;i++)x[threadIdx.x*4+i]=k[i]; }
struct L{ __device__ bool operator()(int a,int b)const{return a<b;} };
extern "C" __global__ void wms(int*x){ using R=cub::WarpMergeSort<int,4,32>; __shared__ R::TempStorage t; int k[4]; for(int i=0;i<4;i++)k[i]=x[threadIdx.x*4+i]; R(t).Sort(k,L()); for(int i=0;i<4;i++)x[threadIdx.x*4+i]=k[i]; }
extern "C" __global__ void atm(int*x,long long*y){ cuda::atomic_ref<int,cuda::thread_scope_device> a(*x); a.fetch_add(3,cuda::memory_order_acq_rel); a.fetch_max(9); cuda::atomic_ref<long long,cuda::thread_scope_system> b(*y); b.fetch_xor(5,cuda::memory_order_seq_cst); while(!b.compare_exchange_weak(y[1],7)); a.store(4,cuda::memory_order_release); y[2]=a.load(cuda::memory_order_acquire); }
extern "C" __global__ void cpx(cuda::std::complex<double>*x){ x[threadIdx.x]=exp(x[threadIdx.x])*sqrt(x[1])/x[2]; }
extern "C" __global__ void mth(double*x,float*y){ int i=threadIdx.x; x[i]=sin(x[i])+pow(x[i],x[i+1])+tgamma(x[i])+erfcinv(x[i])+j0(x[i])+fmod(x[i],3.0)+cbrt(x[i])+lgamma(x[i]); y[i]=sinf(y[i])+powf(y[i],y[i+1])+tgammaf(y[i])+fmodf(y[i],3.0f)+remainderf(y[i],2.f)+acoshf(y[i])+normcdff(y[i])+jnf(3,y[i]); }
typedef int (*F)(int); __device__ __noinline__ int f1(int a){return a*3;} __device__ __noinline__ int f2(int a){return a-7;} __device__ F table[2]={f1,f2};
struct B{ __device__ virtual int go(int)=0; }; struct C:B{ int k; __device__ int go(int a)override{return a+k;} }; struct D:B{ int k[9]; __device__ int go(int a)override{return a*k[a%9];} };
extern "C" __global__ void ind(int*x){ int i=threadIdx.x; C c; c.k=x[0]; D d; for(int j=0;j<9;j++)d.k[j]=x[j]; B*b= (i&1)?(B*)&c:(B*)&d; x[i]=table[i&1](x[i])+b->go(x[i]); }
__device__ int fib(int n){ return n<2?n:fib(n-1)+fib(n-2);} extern "C" __global__ void rec(int*x){ x[threadIdx.x]=fib(x[threadIdx.x]); printf("%d %f\n",x[0],(double)x[1]); void*p=malloc(64); if(p) free(p); assert(x[1]>0); }

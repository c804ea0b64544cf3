"""CUDA files as PTX, through NVRTC: python nvrtc_ptx.py OUT FILE.cu... Needs cuda-bindings, nvidia-cuda-nvrtc and, for CUB, nvidia-cuda-cccl."""
import sys
from pathlib import Path
from cuda.bindings import nvrtc
import nvidia
OUT=Path(sys.argv[1])
INC=[str(Path(p)/'cu13/include') for p in nvidia.__path__]+[str(Path(p)/'cu13/include/cccl') for p in nvidia.__path__]
for f in sys.argv[2:]:
    src=Path(f).read_bytes()
    for arch in ('sm_75','sm_80','sm_90a','sm_100a','sm_120a'):
        err,prog=nvrtc.nvrtcCreateProgram(src,Path(f).name.encode(),0,[],[])
        opts=[f'--gpu-architecture={arch.replace("sm_","compute_")}'.encode(),b'-std=c++17',b'-default-device']+[b'-I'+i.encode() for i in INC]
        err,=nvrtc.nvrtcCompileProgram(prog,len(opts),opts)
        if err!=nvrtc.nvrtcResult.NVRTC_SUCCESS:
            _,n=nvrtc.nvrtcGetProgramLogSize(prog); log=b' '*n; nvrtc.nvrtcGetProgramLog(prog,log); print(f,arch,log.decode()[:300]); continue
        _,n=nvrtc.nvrtcGetPTXSize(prog); ptx=b' '*n; nvrtc.nvrtcGetPTX(prog,ptx)
        (OUT/f'{Path(f).stem}.{arch}.ptx').write_bytes(ptx.rstrip(b'\0'))

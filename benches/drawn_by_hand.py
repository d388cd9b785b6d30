"""Small hand-written networks of kinds people have."""
import math, torch
from torch import nn
import torch.nn.functional as F
class Scalar(nn.Module):
    def __init__(s): super().__init__(); s.f=nn.Linear(16,16); s.scale=nn.Parameter(torch.ones(())); s.g=nn.Linear(16,4)
    def forward(s,x): return s.g(torch.relu(s.f(x))*s.scale)
class LayerScale(nn.Module):
    def __init__(s,form): super().__init__(); s.c=nn.Conv2d(3,16,3,padding=1); s.d=nn.Conv2d(16,16,3,padding=1); s.n=nn.BatchNorm2d(16); s.gamma=nn.Parameter(torch.ones(16)); s.form=form; s.f=nn.Linear(16,10)
    def forward(s,x):
        x=s.c(x); y=torch.relu(s.n(s.d(x)))
        g={"view":lambda:s.gamma.view(1,-1,1,1),"reshape":lambda:s.gamma.reshape(1,-1,1,1),"unsqueeze":lambda:s.gamma.unsqueeze(-1).unsqueeze(-1),"none":lambda:s.gamma[:,None,None],"none4":lambda:s.gamma[None,:,None,None]}[s.form]()
        return s.f((x+y*g).mean((2,3)))
class Rnn(nn.Module):
    def __init__(s,kind,layers=1,dropout=0.,last=True,bi=False):
        super().__init__(); s.r=kind(24,32,batch_first=True,num_layers=layers,dropout=dropout,bidirectional=bi); s.f=nn.Linear(64 if bi else 32,5); s.last=last
    def forward(s,x):
        o,h=s.r(x)
        h=h[0] if isinstance(h,tuple) else h
        return s.f((torch.cat([h[-2],h[-1]],1) if s.r.bidirectional else h[-1]) if s.last else o.mean(1))
class Pool(nn.Module):
    def __init__(s): super().__init__(); s.c=nn.Conv2d(3,8,3); s.p=nn.AdaptiveAvgPool2d((None,1)); s.f=nn.Linear(8,4)
    def forward(s,x): return s.f(s.p(torch.relu(s.c(x))).squeeze(-1).mean(2))
class Fold(nn.Module):
    def __init__(s): super().__init__(); s.u=nn.Unfold(3,padding=1); s.f=nn.Linear(27,16); s.c=nn.Conv2d(16,4,1)
    def forward(s,x):
        b,c,h,w=x.shape
        return s.c(s.f(s.u(x).transpose(1,2)).transpose(1,2).reshape(b,16,h,w)).mean((2,3))
class ColIm(nn.Module):
    def __init__(s): super().__init__(); s.f=nn.Linear(27,27); s.o=nn.Linear(3,4)
    def forward(s,x):
        y=F.unfold(x,3,padding=1); y=s.f(y.transpose(1,2)).transpose(1,2)
        return s.o(F.fold(y,x.shape[-2:],3,padding=1).mean((2,3)))
class WS(nn.Conv2d):
    def forward(s,x):
        w=s.weight; m=w.mean((1,2,3),keepdim=True); v=w.var((1,2,3),keepdim=True)
        return F.conv2d(x,(w-m)/(v+1e-5).sqrt(),s.bias,s.stride,s.padding)
class WeightStd(nn.Module):
    def __init__(s): super().__init__(); s.a=WS(3,32,3,padding=1); s.g=nn.GroupNorm(4,32); s.b=WS(32,64,3,padding=1); s.f=nn.Linear(64,10)
    def forward(s,x): return s.f(torch.relu(s.b(torch.relu(s.g(s.a(x))))).mean((2,3)))
class NormW(nn.Module):
    def __init__(s): super().__init__(); s.f=nn.Linear(32,64); s.w=nn.Parameter(torch.randn(100,64))
    def forward(s,x): return F.linear(F.normalize(torch.relu(s.f(x))),F.normalize(s.w))
class Gan(nn.Module):
    def __init__(s): super().__init__(); s.m=nn.Sequential(nn.ConvTranspose2d(32,64,4,1,0,bias=False),nn.BatchNorm2d(64),nn.ReLU(True),nn.ConvTranspose2d(64,32,4,2,1,bias=False),nn.BatchNorm2d(32),nn.ReLU(True),nn.ConvTranspose2d(32,3,4,2,1,bias=False),nn.Tanh())
    def forward(s,x): return s.m(x)
def act(f):
    class A(nn.Module):
        def forward(s,x): return f(x)
    return nn.Sequential(nn.Linear(64,256),A(),nn.Linear(256,256),A(),nn.Linear(256,10))
class Cross(nn.Module):
    def __init__(s): super().__init__(); s.d=nn.TransformerDecoderLayer(32,4,64,batch_first=True); s.q=nn.Parameter(torch.randn(10,32)); s.f=nn.Linear(32,6); s.e=nn.Linear(16,32)
    def forward(s,x): m=s.e(x); return s.f(s.d(s.q.unsqueeze(0).expand(x.shape[0],-1,-1),m))
class LN(nn.Module):
    def __init__(s): super().__init__(); s.a=nn.Linear(64,128); s.g=nn.Parameter(torch.ones(128)); s.b=nn.Parameter(torch.zeros(128)); s.o=nn.Linear(128,8)
    def forward(s,x):
        x=s.a(x); m=x.mean(-1,keepdim=True); v=(x-m).pow(2).mean(-1,keepdim=True)
        return s.o((x-m)/torch.sqrt(v+1e-6)*s.g+s.b)
class Drop2d(nn.Module):
    def __init__(s): super().__init__(); s.c=nn.Conv2d(3,16,3); s.d=nn.Dropout2d(.2); s.f=nn.Linear(16,4)
    def forward(s,x): return s.f(s.d(F.leaky_relu(s.c(x),.1,inplace=True)).mean((2,3)))
class Moe(nn.Module):
    def __init__(s): super().__init__(); s.g=nn.Linear(32,4); s.e=nn.ModuleList(nn.Sequential(nn.Linear(32,64),nn.GELU(),nn.Linear(64,32)) for _ in range(4)); s.o=nn.Linear(32,5)
    def forward(s,x):
        w=torch.softmax(s.g(x),-1); return s.o(sum(w[:,i:i+1]*e(x) for i,e in enumerate(s.e)))
class Glu(nn.Module):
    def __init__(s): super().__init__(); s.a=nn.Conv1d(8,64,3,padding=1); s.b=nn.Conv1d(32,64,3,padding=1); s.f=nn.Linear(32,4)
    def forward(s,x): return s.f(F.glu(s.b(F.glu(s.a(x),1)),1).mean(2))
class Vol(nn.Module):
    def __init__(s): super().__init__(); s.m=nn.Sequential(nn.Conv3d(1,8,3,padding=1),nn.BatchNorm3d(8),nn.ReLU(),nn.MaxPool3d(2),nn.Conv3d(8,16,3,padding=1),nn.ReLU(),nn.AdaptiveAvgPool3d(1),nn.Flatten(),nn.Linear(16,4))
    def forward(s,x): return s.m(x)
class Inplace(nn.Module):
    def __init__(s): super().__init__(); s.m=nn.Sequential(nn.Conv2d(3,16,3),nn.BatchNorm2d(16),nn.LeakyReLU(.1,True),nn.Conv2d(16,32,3),nn.BatchNorm2d(32),nn.ELU(inplace=True),nn.Conv2d(32,16,3),nn.CELU(inplace=True),nn.AdaptiveAvgPool2d(1),nn.Flatten(),nn.Linear(16,4))
    def forward(s,x): return s.m(x)
class RPad(nn.Module):
    def __init__(s): super().__init__(); s.m=nn.Sequential(nn.ReflectionPad2d(3),nn.Conv2d(3,16,7),nn.InstanceNorm2d(16),nn.ReLU(True),nn.ReflectionPad2d(1),nn.Conv2d(16,16,3),nn.AdaptiveMaxPool2d(1),nn.Flatten(),nn.Linear(16,4))
    def forward(s,x): return s.m(x)
class Unet(nn.Module):
    def __init__(s):
        super().__init__(); c=lambda i,o:nn.Sequential(nn.Conv2d(i,o,3,padding=1),nn.BatchNorm2d(o),nn.SiLU()); s.a,s.b,s.c,s.d,s.u,s.o=c(3,16),c(16,32),c(32,32),c(48,16),nn.ConvTranspose2d(32,32,2,2),nn.Conv2d(16,5,1)
    def forward(s,x):
        a=s.a(x); b=s.u(s.c(s.b(F.max_pool2d(a,2)))); return s.o(s.d(torch.cat([a,b],1)))
I=(4,3,32,32)
GELU=lambda x:0.5*x*(1+torch.tanh(math.sqrt(2/math.pi)*(x+0.044715*torch.pow(x,3))))
NETS={
"scalar":(Scalar,(8,16)),**{"layerscale_"+f:(lambda f=f:LayerScale(f),I) for f in ("view","reshape","unsqueeze","none","none4")},
"gru_last":(lambda:Rnn(nn.GRU),(16,20,24)),"lstm_last":(lambda:Rnn(nn.LSTM),(16,20,24)),"gru2":(lambda:Rnn(nn.GRU,2,.1,bi=True),(16,20,24)),"lstm2_drop":(lambda:Rnn(nn.LSTM,2,.2),(16,20,24)),"lstm_all":(lambda:Rnn(nn.LSTM,1,last=False,bi=True),(16,20,24)),"rnn":(lambda:Rnn(nn.RNN,1,last=False),(16,20,24)),
"pool_none":(Pool,I),"unfold":(Fold,I),"col2im":(ColIm,I),"weight_std":(WeightStd,I),"norm_w":(NormW,(16,32)),"dcgan":(Gan,(8,32,1,1)),
"gelu_tanh":(lambda:act(GELU),(128,64)),"gelu_erf":(lambda:act(lambda x:x*0.5*(1+torch.erf(x/math.sqrt(2)))),(128,64)),"hswish":(lambda:act(lambda x:x*F.relu6(x+3)/6),(128,64)),"mish":(lambda:act(lambda x:x*torch.tanh(F.softplus(x))),(128,64)),"xsig":(lambda:act(lambda x:x*torch.sigmoid(x)),(128,64)),
"cross":(Cross,(4,20,16)),"ln":(LN,(256,64)),"drop2d":(Drop2d,I),"moe":(Moe,(64,32)),"glu":(Glu,(8,8,64)),"vol":(Vol,(2,1,16,16,16)),"inplace":(Inplace,I),"reflect":(RPad,I),"unet":(Unet,(2,3,32,32)),
}

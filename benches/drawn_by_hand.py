"""Small hand-written networks of kinds people have."""

import math

import torch
from torch import nn
import torch.nn.functional as F


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(16, 16)
        self.scale = nn.Parameter(torch.ones(()))
        self.g = nn.Linear(16, 4)

    def forward(self, x):
        return self.g(torch.relu(self.f(x)) * self.scale)


class LayerScale(nn.Module):
    def __init__(self, form):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3, padding=1)
        self.d = nn.Conv2d(16, 16, 3, padding=1)
        self.n = nn.BatchNorm2d(16)
        self.gamma = nn.Parameter(torch.ones(16))
        self.form = form
        self.f = nn.Linear(16, 10)

    def forward(self, x):
        x = self.c(x)
        y = torch.relu(self.n(self.d(x)))
        g = {
            "view": lambda: self.gamma.view(1, -1, 1, 1),
            "reshape": lambda: self.gamma.reshape(1, -1, 1, 1),
            "unsqueeze": lambda: self.gamma.unsqueeze(-1).unsqueeze(-1),
            "none": lambda: self.gamma[:, None, None],
            "none4": lambda: self.gamma[None, :, None, None],
        }[self.form]()
        return self.f((x + y * g).mean((2, 3)))


class Rnn(nn.Module):
    def __init__(self, kind, layers=1, dropout=0.0, last=True, bi=False):
        super().__init__()
        self.r = kind(24, 32, batch_first=True, num_layers=layers, dropout=dropout, bidirectional=bi)
        self.f = nn.Linear(64 if bi else 32, 5)
        self.last = last

    def forward(self, x):
        o, h = self.r(x)
        h = h[0] if isinstance(h, tuple) else h
        return self.f((torch.cat([h[-2], h[-1]], 1) if self.r.bidirectional else h[-1]) if self.last else o.mean(1))


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 8, 3)
        self.p = nn.AdaptiveAvgPool2d((None, 1))
        self.f = nn.Linear(8, 4)

    def forward(self, x):
        return self.f(self.p(torch.relu(self.c(x))).squeeze(-1).mean(2))


class Fold(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Unfold(3, padding=1)
        self.f = nn.Linear(27, 16)
        self.c = nn.Conv2d(16, 4, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        return self.c(self.f(self.u(x).transpose(1, 2)).transpose(1, 2).reshape(b, 16, h, w)).mean((2, 3))


class ColIm(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(27, 27)
        self.o = nn.Linear(3, 4)

    def forward(self, x):
        y = F.unfold(x, 3, padding=1)
        y = self.f(y.transpose(1, 2)).transpose(1, 2)
        return self.o(F.fold(y, x.shape[-2:], 3, padding=1).mean((2, 3)))


class WS(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        m = w.mean((1, 2, 3), keepdim=True)
        v = w.var((1, 2, 3), keepdim=True)
        return F.conv2d(x, (w - m) / (v + 1e-5).sqrt(), self.bias, self.stride, self.padding)


class WeightStd(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = WS(3, 32, 3, padding=1)
        self.g = nn.GroupNorm(4, 32)
        self.b = WS(32, 64, 3, padding=1)
        self.f = nn.Linear(64, 10)

    def forward(self, x):
        return self.f(torch.relu(self.b(torch.relu(self.g(self.a(x))))).mean((2, 3)))


class NormW(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Linear(32, 64)
        self.w = nn.Parameter(torch.randn(100, 64))

    def forward(self, x):
        return F.linear(F.normalize(torch.relu(self.f(x))), F.normalize(self.w))


class Gan(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.ConvTranspose2d(32, 64, 4, 1, 0, bias=False),
            nn.BatchNorm2d(64),
            nn.ReLU(True),
            nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(True),
            nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.m(x)


def act(f):
    class A(nn.Module):
        def forward(self, x):
            return f(x)

    return nn.Sequential(nn.Linear(64, 256), A(), nn.Linear(256, 256), A(), nn.Linear(256, 10))


class Cross(nn.Module):
    def __init__(self):
        super().__init__()
        self.d = nn.TransformerDecoderLayer(32, 4, 64, batch_first=True)
        self.q = nn.Parameter(torch.randn(10, 32))
        self.f = nn.Linear(32, 6)
        self.e = nn.Linear(16, 32)

    def forward(self, x):
        m = self.e(x)
        return self.f(self.d(self.q.unsqueeze(0).expand(x.shape[0], -1, -1), m))


class LN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 128)
        self.g = nn.Parameter(torch.ones(128))
        self.b = nn.Parameter(torch.zeros(128))
        self.o = nn.Linear(128, 8)

    def forward(self, x):
        x = self.a(x)
        m = x.mean(-1, keepdim=True)
        v = (x - m).pow(2).mean(-1, keepdim=True)
        return self.o((x - m) / torch.sqrt(v + 1e-6) * self.g + self.b)


class Drop2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3)
        self.d = nn.Dropout2d(0.2)
        self.f = nn.Linear(16, 4)

    def forward(self, x):
        return self.f(self.d(F.leaky_relu(self.c(x), 0.1, inplace=True)).mean((2, 3)))


class Moe(nn.Module):
    def __init__(self):
        super().__init__()
        self.g = nn.Linear(32, 4)
        self.e = nn.ModuleList(nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(4))
        self.o = nn.Linear(32, 5)

    def forward(self, x):
        w = torch.softmax(self.g(x), -1)
        return self.o(sum(w[:, i : i + 1] * e(x) for i, e in enumerate(self.e)))


class Glu(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(8, 64, 3, padding=1)
        self.b = nn.Conv1d(32, 64, 3, padding=1)
        self.f = nn.Linear(32, 4)

    def forward(self, x):
        return self.f(F.glu(self.b(F.glu(self.a(x), 1)), 1).mean(2))


class Vol(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1),
            nn.BatchNorm3d(8),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        return self.m(x)


class Inplace(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 16, 3),
            nn.BatchNorm2d(16),
            nn.LeakyReLU(0.1, True),
            nn.Conv2d(16, 32, 3),
            nn.BatchNorm2d(32),
            nn.ELU(inplace=True),
            nn.Conv2d(32, 16, 3),
            nn.CELU(inplace=True),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        return self.m(x)


class RPad(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.ReflectionPad2d(3),
            nn.Conv2d(3, 16, 7),
            nn.InstanceNorm2d(16),
            nn.ReLU(True),
            nn.ReflectionPad2d(1),
            nn.Conv2d(16, 16, 3),
            nn.AdaptiveMaxPool2d(1),
            nn.Flatten(),
            nn.Linear(16, 4),
        )

    def forward(self, x):
        return self.m(x)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        c = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.SiLU())
        self.a, self.b, self.c, self.d, self.u, self.o = (
            c(3, 16),
            c(16, 32),
            c(32, 32),
            c(48, 16),
            nn.ConvTranspose2d(32, 32, 2, 2),
            nn.Conv2d(16, 5, 1),
        )

    def forward(self, x):
        a = self.a(x)
        b = self.u(self.c(self.b(F.max_pool2d(a, 2))))
        return self.o(self.d(torch.cat([a, b], 1)))


class GeluMlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(48, 192)
        self.b = nn.Linear(192, 192)
        self.c = nn.Linear(192, 10)

    def g(self, x):
        cdf = 0.5 * (1.0 + torch.erf(x / 1.4142135))
        return x * cdf

    def forward(self, x):
        return self.c(self.g(self.b(self.g(self.a(x)))))


class NamedNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.g = nn.Parameter(torch.ones(n))
        self.b = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        centred = x - mean
        out = centred / (std + 1e-6)
        return self.g * out + self.b


class AnnotatedTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        d = 64
        self.n1, self.n2 = NamedNorm(d), NamedNorm(d)
        self.q, self.k, self.v, self.o = [nn.Linear(d, d) for _ in range(4)]
        self.f1, self.f2 = nn.Linear(d, 256), nn.Linear(256, d)
        self.h = nn.Linear(d, 20)
        self.e = nn.Linear(16, d)

    def forward(self, x):
        x = self.e(x)
        y = self.n1(x)
        b, t, d = y.shape
        q, k, v = [l(y).view(b, t, 4, 16).transpose(1, 2) for l in (self.q, self.k, self.v)]
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(16)
        p = scores.softmax(-1)
        p = F.dropout(p, 0.1, self.training)
        out = torch.matmul(p, v).transpose(1, 2).contiguous().view(b, t, d)
        x = x + self.o(out)
        h = self.f2(torch.relu(self.f1(self.n2(x))))
        return self.h(x + h)


class Drop3(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 24, 3, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Dropout2d(0.3),
            nn.Conv2d(24, 48, 3, 2, 1),
            nn.GELU(),
            nn.Dropout2d(0.1),
        )
        self.f = nn.Linear(48, 7)

    def forward(self, x):
        x = self.m(x)
        return self.f(x.mean((2, 3)))


class WSConv(nn.Conv2d):
    def forward(self, x):
        w = self.weight
        w = w - w.mean((1, 2, 3), keepdim=True)
        w = w / (w.view(w.size(0), -1).std(1).view(-1, 1, 1, 1) + 1e-5)
        return F.conv2d(x, w, self.bias, self.stride, self.padding)


class WSNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            WSConv(3, 32, 3, 2, 1),
            nn.GroupNorm(8, 32),
            nn.ReLU(),
            WSConv(32, 64, 3, 2, 1),
            nn.GroupNorm(8, 64),
            nn.ReLU(),
            WSConv(64, 128, 3, padding=1),
        )
        self.f = nn.Linear(128, 10)

    def forward(self, x):
        return self.f(F.adaptive_avg_pool2d(self.m(x), 1).flatten(1))


class Cosine(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU())
        self.w = nn.Parameter(torch.randn(500, 64))

    def forward(self, x):
        f = self.m(x).mean((2, 3))
        f = f / f.norm(dim=1, keepdim=True)
        w = self.w / self.w.norm(dim=1, keepdim=True)
        return 16 * f @ w.t()


class Mdn(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = nn.Linear(20, 256)
        self.pi = nn.Linear(256, 8)
        self.mu = nn.Linear(256, 8)
        self.sg = nn.Linear(256, 8)

    def forward(self, x):
        h = torch.tanh(self.h(x))
        pi = F.softmax(self.pi(h), 1)
        mu = self.mu(h)
        sg = torch.exp(self.sg(h))
        return pi * torch.exp(-0.5 * ((0.3 - mu) / sg).pow(2)) / sg


class Rms(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(torch.ones(n))

    def forward(self, x):
        v = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(v + 1e-6)
        return self.w * x


class Swiglu(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(32, 96)
        self.n = nn.ModuleList(Rms(96) for _ in range(3))
        self.g = nn.ModuleList(nn.Linear(96, 256) for _ in range(3))
        self.u = nn.ModuleList(nn.Linear(96, 256) for _ in range(3))
        self.d = nn.ModuleList(nn.Linear(256, 96) for _ in range(3))
        self.h = nn.Linear(96, 50)

    def forward(self, x):
        x = self.e(x)
        for n, g, u, d in zip(self.n, self.g, self.u, self.d):
            y = n(x)
            gate = g(y)
            up = u(y)
            hidden = F.silu(gate) * up
            x = x + d(hidden)
        return self.h(x)


class Se(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 32, 3, padding=1)
        self.c2 = nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.f1 = nn.Conv2d(32, 8, 1)
        self.f2 = nn.Conv2d(8, 32, 1)
        self.b = nn.BatchNorm2d(32)
        self.o = nn.Linear(32, 5)

    def hs(self, x):
        return x * F.relu6(x + 3) / 6

    def forward(self, x):
        a = self.hs(self.b(self.c1(x)))
        b = self.c2(a)
        w = b.mean((2, 3), keepdim=True)
        w = torch.sigmoid(self.f2(torch.relu(self.f1(w))))
        c = b * w
        y = a + c
        return self.o(self.hs(y).mean((2, 3)))


class PatchFold(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Linear(3 * 16, 64)
        self.q = nn.Linear(64, 3 * 16)
        self.o = nn.Conv2d(3, 4, 3, padding=1)

    def forward(self, x):
        u = F.unfold(x, 4, stride=4).transpose(1, 2)
        y = self.q(F.gelu(self.p(u))).transpose(1, 2)
        y = F.fold(y, (32, 32), 4, stride=4)
        return self.o(x + y).mean((2, 3))


class LocalAttn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 1)
        self.o = nn.Linear(16, 6)

    def forward(self, x):
        y = self.c(x)
        k = F.pad(y, [1] * 4).unfold(2, 3, 1).unfold(3, 3, 1)
        a = (k * y[..., None, None]).sum(1, keepdim=True).flatten(-2).softmax(-1)
        z = (k.flatten(-2) * a).sum(-1)
        return self.o(z.mean((2, 3)))


class MaxHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(3, 64, 1)
        self.b = nn.Conv1d(64, 256, 1)
        self.f = nn.Linear(256, 40)

    def forward(self, x):
        return self.f(torch.max(F.relu(self.b(F.relu(self.a(x)))), 2)[0])


class Amax(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 128)
        self.f = nn.Linear(128, 40)

    def forward(self, x):
        return self.f(F.leaky_relu(self.a(x), 0.2).amax(1))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv1d(16, 32, 3, padding=1)
        self.b = nn.Conv1d(16, 32, 3, padding=1)
        self.c = nn.Conv1d(32, 16, 1)
        self.o = nn.Linear(16, 4)
        self.i = nn.Conv1d(4, 16, 1)

    def forward(self, x):
        x = self.i(x)
        skips = []
        for _ in range(3):
            f = torch.tanh(self.a(x))
            g = torch.sigmoid(self.b(x))
            z = self.c(f * g)
            skips.append(z)
            x = x + z
        return self.o(sum(skips).mean(2))


class Focal(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Conv2d(3, 64, 4, 4)
        self.f = nn.Conv2d(64, 131, 1)
        self.l = nn.ModuleList(nn.Conv2d(64, 64, k, padding=k // 2, groups=64) for k in (3, 5))
        self.h = nn.Conv2d(64, 64, 1)
        self.o = nn.Linear(64, 10)

    def forward(self, x):
        x = self.p(x)
        q, ctx, gates = torch.split(self.f(x), (64, 64, 3), 1)
        ctx_all = 0
        for i, l in enumerate(self.l):
            ctx = F.gelu(l(ctx))
            ctx_all = ctx_all + ctx * gates[:, i : i + 1]
        g = F.gelu(ctx.mean((2, 3), keepdim=True))
        ctx_all = ctx_all + g * gates[:, 2:]
        return self.o((q * self.h(ctx_all)).mean((2, 3)))


class Softplus2(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(16, 128)
        self.b = nn.Linear(128, 128)
        self.c = nn.Linear(128, 3)

    def forward(self, x):
        h = torch.log(1 + torch.exp(self.a(x)))
        h = torch.sin(self.b(h)) * torch.exp(-h * h)
        return self.c(h)


class Fcn(nn.Module):
    def __init__(self):
        super().__init__()
        c = lambda i, o, st=1: nn.Sequential(nn.Conv2d(i, o, 3, st, 1), nn.BatchNorm2d(o), nn.ReLU(True))
        self.a, self.b, self.c = c(3, 16), c(16, 32, 2), c(32, 64, 2)
        self.h = nn.ModuleList(nn.Conv2d(k, 32, 1) for k in (16, 32, 64))
        self.o = nn.Conv2d(96, 6, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(a)
        c = self.c(b)
        maps = [F.interpolate(h(f), x.shape[-2:], mode="bilinear") for h, f in zip(self.h, (a, b, c))]
        fused = torch.cat(maps, 1)
        return self.o(fused)


class Tcn(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.ModuleList(nn.Conv1d(8 if i == 0 else 32, 32, 3, padding=2**i, dilation=2**i) for i in range(3))
        self.d = nn.Dropout1d(0.2)
        self.o = nn.Linear(32, 5)
        self.r = nn.Conv1d(8, 32, 1)

    def forward(self, x):
        res = self.r(x)
        h = x
        for c in self.c:
            y = c(h)
            y = F.elu(y)
            h = self.d(y)
        out = h + res
        return self.o(out.mean(2))


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 48, 3, padding=1)),
            nn.SiLU(),
            nn.utils.parametrizations.weight_norm(nn.Conv2d(48, 96, 3, 2, 1)),
            nn.SiLU(),
        )
        self.f = nn.utils.parametrizations.weight_norm(nn.Linear(96, 200))

    def forward(self, x):
        return self.f(self.m(x).mean((2, 3)))


class Squash(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 64, 5, 2)
        self.w = nn.Linear(8, 16)
        self.o = nn.Linear(16, 10)

    def forward(self, x):
        u = torch.relu(self.c(x))
        b = u.shape[0]
        u = u.view(b, 8, -1).transpose(1, 2)
        sq = (u * u).sum(-1, keepdim=True)
        v = sq / (1 + sq) * u / torch.sqrt(sq + 1e-8)
        h = self.w(v)
        return self.o(h.amax(1))


class Mixer2(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(48, 64)
        self.t = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.n = NamedNorm(64)
        self.h = nn.Linear(64, 9)

    def forward(self, x):
        x = self.e(x)
        y = self.n(x)
        y = y.transpose(1, 2)
        y = self.t(y)
        y = y.transpose(1, 2)
        x = x + y
        pooled, _ = x.max(1)
        return self.h(pooled)


class Rbf(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.randn(64, 12))
        self.g = nn.Parameter(torch.ones(64))
        self.o = nn.Linear(64, 4)

    def forward(self, x):
        d = (x.unsqueeze(1) - self.c).pow(2).sum(-1)
        phi = torch.exp(-self.g.abs() * d)
        phi = phi / (phi.sum(1, keepdim=True) + 1e-6)
        return self.o(phi)


class Segments(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = nn.Conv2d(3, 16, 3, padding=1)
        self.b = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(16, 16, 3, padding=1),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.Conv2d(16, 16, 3, padding=1),
                nn.ReLU(),
            )
            for _ in range(3)
        )
        self.o = nn.Linear(16, 5)

    def forward(self, x):
        x = self.i(x)
        for b in self.b:
            x = torch.utils.checkpoint.checkpoint(b, x, use_reentrant=True)
        return self.o(x.mean((2, 3)))


class LstmMean(nn.Module):
    def __init__(self, proj=0):
        super().__init__()
        self.r = nn.LSTM(24, 64, batch_first=True, proj_size=proj)
        self.f = nn.Linear(proj or 64, 5)

    def forward(self, x):
        return self.f(self.r(x)[0].mean(1))


class VolMean(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv3d(3, 16, 3, padding=1)
        self.f = nn.Linear(16, 5)

    def forward(self, x):
        return self.f(self.c(x).mean((2, 3, 4)))


class Lasts(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1, groups=32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
        )
        self.f = nn.Linear(64, 5)

    def forward(self, x):
        return self.f(self.m(x).mean((2, 3)))


class Orthogonal(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.orthogonal(nn.Linear(32, 32))
        self.m = nn.Sequential(*(l for _ in range(4) for l in (nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU())))
        self.f = nn.Linear(32, 5)

    def forward(self, x):
        return self.f(self.m(torch.relu(self.a(x))))


class Upsampled(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv1d(4, 16, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(16, 8, 4, 2, 1),
            nn.ReLU(),
            nn.Conv1d(8, 8, 3, padding=1),
        )
        self.f = nn.Linear(8, 5)

    def forward(self, x):
        return self.f(self.m(x).mean(2))


class StdNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 256)
        self.b = nn.Linear(256, 256)
        self.o = nn.Linear(256, 8)

    def forward(self, x):
        x = self.a(x)
        x = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
        x = torch.relu(self.b(x))
        x = x / x.std(dim=0, keepdim=True).add(1e-3)
        return self.o(x)


class VarScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 256)
        self.b = nn.Linear(256, 256)
        self.o = nn.Linear(256, 8)

    def forward(self, x):
        x = self.a(x)
        x = x * x.var()
        x = torch.tanh(self.b(x))
        x = x * torch.var(x, dim=1, keepdim=True)
        return self.o(x)


class Einsum3(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(24, 32)
        self.u = nn.Parameter(torch.randn(16, 32))
        self.v = nn.Parameter(torch.randn(16, 32))
        self.o = nn.Linear(16, 5)

    def forward(self, x):
        x = self.e(x)
        return self.o(torch.einsum("btd,rd,rd->btr", x, self.u, self.v))


class TriLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(24, 32)
        self.b = nn.Linear(24, 32)
        self.w = nn.Parameter(torch.randn(32, 32, 8) * 0.1)
        self.o = nn.Linear(8, 5)

    def forward(self, x):
        return self.o(torch.einsum("bni,ijk,bnj->bnk", torch.relu(self.a(x)), self.w, torch.relu(self.b(x))))


class Biaffine(nn.Module):
    def __init__(self, o=7):
        super().__init__()
        self.h = nn.Linear(40, 64)
        self.d = nn.Linear(40, 64)
        self.W = nn.Parameter(torch.randn(o, 65, 65) * 0.1)

    def forward(self, x):
        h, d = F.leaky_relu(self.h(x), 0.1), F.leaky_relu(self.d(x), 0.1)
        h = torch.cat([h, torch.ones_like(h[..., :1])], -1)
        d = torch.cat([d, torch.ones_like(d[..., :1])], -1)
        s_ = torch.einsum("bxi,oij,byj->boxy", h, self.W, d)
        return s_


class BiaffineMatmul(nn.Module):
    def __init__(self, o=7):
        super().__init__()
        self.h = nn.Linear(40, 64)
        self.d = nn.Linear(40, 64)
        self.W = nn.Parameter(torch.randn(o, 64, 64) * 0.1)

    def forward(self, x):
        h, d = F.elu(self.h(x)), F.elu(self.d(x))
        return h.unsqueeze(1) @ self.W @ d.unsqueeze(1).transpose(-1, -2)


class LogSig(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 256)
        self.b = nn.Linear(256, 256)
        self.c = nn.Linear(64, 256)

    def forward(self, x):
        p = self.b(torch.tanh(self.a(x)))
        n = self.b(torch.tanh(self.c(x)))
        return F.logsigmoid(p - n)


class SliceAdd(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(32, 64)
        self.b = nn.Linear(32, 32)
        self.c = nn.Linear(64, 64)
        self.o = nn.Linear(64, 6)

    def forward(self, x):
        y = self.a(x)
        z = y.clone()
        z[..., :32] += self.b(torch.relu(y[..., :32]))
        z[..., 32:] *= torch.sigmoid(self.b(y[..., 32:]))
        return self.o(torch.relu(self.c(z)))


class SliceSet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 32, 3, padding=1)
        self.d = nn.Conv2d(32, 32, 3, padding=1)
        self.o = nn.Linear(32, 6)

    def forward(self, x):
        x = self.c(x)
        out = torch.zeros_like(x)
        out[:, :8, :, 1:] = x[:, :8, :, :-1]
        out[:, 8:16, :, :-1] = x[:, 8:16, :, 1:]
        out[:, 16:] = x[:, 16:]
        return self.o(torch.relu(self.d(out)).mean((2, 3)))


class Gathers(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Linear(16, 64)
        self.sc = nn.Linear(64, 1)
        self.f = nn.Linear(64, 64)
        self.o = nn.Linear(64, 6)

    def forward(self, x):
        x = self.e(x)
        sc = self.sc(x).squeeze(-1)
        v, i = sc.topk(12, dim=1)
        ix = i.unsqueeze(-1).expand(-1, -1, x.shape[-1])
        y = x.gather(1, ix)
        y = self.f(torch.relu(y)) * torch.sigmoid(v).unsqueeze(-1)
        return self.o(x.scatter_add(1, ix, y))


class TiedT(nn.Module):
    def __init__(self):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(256, 400) * 0.05)
        self.w2 = nn.Parameter(torch.randn(64, 256) * 0.05)
        self.b = nn.Parameter(torch.zeros(400))
        self.b2 = nn.Parameter(torch.zeros(256))

    def forward(self, x):
        z = F.linear(torch.relu(F.linear(x, self.w1)), self.w2)
        return F.linear(torch.relu(F.linear(z, self.w2.t(), self.b2)), self.w1.t(), self.b)


class InstGroup(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.Sequential(
            nn.Conv2d(3, 21, 3, padding=1),
            nn.InstanceNorm2d(21, affine=True),
            nn.PReLU(21),
            nn.Conv2d(21, 35, 3, padding=1, groups=7),
            nn.InstanceNorm2d(35, track_running_stats=True),
            nn.Hardswish(),
            nn.Conv2d(35, 35, 5, stride=2, padding=2, groups=5),
            nn.ReLU6(),
        )
        self.o = nn.Linear(35, 5)

    def forward(self, x):
        return self.o(self.m(x).mean((2, 3)))


class Kan(nn.Module):
    def __init__(self, i, o, g=5, k=3):
        super().__init__()
        self.b = nn.Parameter(torch.randn(o, i) * 0.1)
        self.s = nn.Parameter(torch.randn(o, i, g + k) * 0.1)
        self.k = k
        h = 2 / g
        self.register_buffer("grid", (torch.arange(-k, g + k + 1) * h - 1).expand(i, -1).contiguous())

    def spl(self, x):
        x = x.unsqueeze(-1)
        g = self.grid
        b = ((x >= g[:, :-1]) & (x < g[:, 1:])).to(x.dtype)
        for k in range(1, self.k + 1):
            b = (x - g[:, : -(k + 1)]) / (g[:, k:-1] - g[:, : -(k + 1)]) * b[..., :-1] + (g[:, k + 1 :] - x) / (
                g[:, k + 1 :] - g[:, 1:-k]
            ) * b[..., 1:]
        return b

    def forward(self, x):
        return F.linear(F.silu(x), self.b) + F.linear(self.spl(x).view(x.size(0), -1), self.s.view(self.s.size(0), -1))


class LinAttn(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.e = nn.Linear(16, d)
        self.q, self.k, self.v = [nn.Linear(d, d) for _ in range(3)]
        self.o = nn.Linear(d, 6)

    def forward(self, x):
        x = self.e(x)
        b, t, d = x.shape
        q, k, v = [l(x).view(b, t, 4, d // 4) for l in (self.q, self.k, self.v)]
        q = F.elu(q) + 1
        k = F.elu(k) + 1
        kv = torch.einsum("bthd,bthe->bhde", k, v)
        z = 1 / (torch.einsum("bthd,bhd->bth", q, k.sum(1)) + 1e-6)
        return self.o(torch.einsum("bthd,bhde,bth->bthe", q, kv, z).reshape(b, t, d))


class Adain(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 32, 3, padding=1)
        self.m = nn.Linear(32, 64)
        self.d = nn.Conv2d(32, 32, 3, padding=1)
        self.o = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x):
        y = F.relu(self.c(x))
        g, b = self.m(y.mean((2, 3))).chunk(2, 1)
        b_, c, h, w = y.shape
        v = y.view(b_, c, -1)
        mu = v.mean(2).view(b_, c, 1, 1)
        sd = (v.var(2) + 1e-5).sqrt().view(b_, c, 1, 1)
        y = (y - mu) / sd * g[..., None, None] + b[..., None, None]
        return torch.sigmoid(self.o(F.relu(self.d(y))))


class NonLocal(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 32, 3, 2, 1)
        self.t, self.p, self.g = [nn.Conv2d(32, 16, 1) for _ in range(3)]
        self.z = nn.Conv2d(16, 32, 1)
        self.ga = nn.Parameter(torch.zeros(1))
        self.o = nn.Linear(32, 6)

    def forward(self, x):
        x = self.c(x)
        b, c, h, w = x.shape
        q = self.t(x).view(b, 16, -1).permute(0, 2, 1)
        k = self.p(x).view(b, 16, -1)
        e = torch.bmm(q, k)
        a = F.softmax(e, -1)
        v = self.g(x).view(b, 16, -1)
        o = torch.bmm(v, a.permute(0, 2, 1)).view(b, 16, h, w)
        return self.o((self.ga * self.z(o) + x).mean((2, 3)))


class SoftThresh(nn.Module):
    def __init__(self):
        super().__init__()
        self.W = nn.Parameter(torch.randn(128, 40) * 0.1)
        self.th = nn.Parameter(torch.full((128,), 0.1))

    def forward(self, x):
        z = x @ self.W.t()
        z = torch.sign(z) * F.relu(z.abs() - self.th)
        for _ in range(3):
            r = x - z @ self.W
            z = z + 0.1 * (r @ self.W.t())
            z = torch.sign(z) * F.relu(z.abs() - self.th)
        return z @ self.W


class BilinearM(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(32, 64)
        self.b = nn.Bilinear(64, 64, 32)
        self.o = nn.Linear(32, 5)

    def forward(self, x):
        y = F.softsign(self.a(x))
        return self.o(F.hardtanh(self.b(y, F.softmin(y, -1))))


class FNOBlock(nn.Module):
    def __init__(self, c, m=8):
        super().__init__()
        self.m = m
        self.w = nn.Parameter(torch.randn(c, c, m, m, 2) * 0.02)
        self.p = nn.Conv2d(c, c, 1)

    def forward(self, x):
        f = torch.fft.rfft2(x)
        o = torch.zeros(x.shape[0], x.shape[1], x.shape[2], x.shape[3] // 2 + 1, dtype=torch.cfloat, device=x.device)
        o[:, :, : self.m, : self.m] = torch.einsum("bixy,ioxy->boxy", f[:, :, : self.m, : self.m], torch.view_as_complex(self.w))
        return F.gelu(torch.fft.irfft2(o, s=x.shape[-2:]) + self.p(x))


class FNO(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.l = nn.Conv2d(3, c, 3, padding=1)
        self.b = nn.Sequential(*[FNOBlock(c) for _ in range(3)])
        self.o = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        return self.o(self.b(self.l(x))).flatten(1)


class S4D(nn.Module):
    def __init__(self, h, n=32):
        super().__init__()
        self.C = nn.Parameter(torch.randn(h, n, 2) * 0.5)
        self.log_dt = nn.Parameter(torch.rand(h))
        self.A = nn.Parameter(torch.rand(h, n))
        self.D = nn.Parameter(torch.rand(h))
        self.out = nn.Conv1d(h, 2 * h, 1)

    def forward(self, u):
        L = u.shape[-1]
        dt = self.log_dt.exp()
        C = torch.view_as_complex(self.C)
        A = -torch.exp(self.A) + 1j * math.pi * torch.arange(self.A.shape[1])
        dtA = A * dt[:, None]
        K = dtA[..., None] * torch.arange(L)
        C = C * (torch.exp(dtA) - 1.0) / A
        k = 2 * torch.einsum("hn,hnl->hl", C, torch.exp(K)).real
        y = torch.fft.irfft(torch.fft.rfft(u, n=2 * L) * torch.fft.rfft(k, n=2 * L), n=2 * L)[..., :L] + u * self.D[:, None]
        return F.glu(self.out(F.gelu(y)), dim=1)


class S4Net(nn.Module):
    def __init__(self, h=64):
        super().__init__()
        self.e = nn.Linear(1, h)
        self.l = nn.ModuleList(S4D(h) for _ in range(3))
        self.n = nn.ModuleList(nn.LayerNorm(h) for _ in range(3))
        self.d = nn.Linear(h, 10)

    def forward(self, x):
        x = self.e(x).transpose(1, 2)
        for l, n in zip(self.l, self.n):
            x = n((x + l(x)).transpose(1, 2)).transpose(1, 2)
        return self.d(x.mean(-1))


class Modulated(nn.Module):
    def __init__(self, i, o, style=32):
        super().__init__()
        self.w = nn.Parameter(torch.randn(o, i, 3, 3) * 0.1)
        self.m = nn.Linear(style, i)

    def forward(self, x, st):
        B, C, H, W = x.shape
        w = self.w[None] * self.m(st)[:, None, :, None, None]
        w = w * torch.rsqrt(w.pow(2).sum([2, 3, 4], keepdim=True) + 1e-8)
        y = F.conv2d(x.reshape(1, B * C, H, W), w.reshape(B * w.shape[1], C, 3, 3), padding=1, groups=B)
        return F.leaky_relu(y.view(B, -1, H, W), 0.2)


class StyleGAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Parameter(torch.randn(1, 64, 4, 4))
        self.m = nn.Sequential(nn.Linear(32, 32), nn.LeakyReLU(), nn.Linear(32, 32))
        self.l = nn.ModuleList([Modulated(64, 64), Modulated(64, 32), Modulated(32, 32)])
        self.rgb = nn.Conv2d(32, 3, 1)

    def forward(self, z):
        w = self.m(z)
        x = self.c.expand(len(z), -1, -1, -1)
        for l in self.l:
            x = l(F.interpolate(x, scale_factor=2.0), w)
        return self.rgb(x)


class DynConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 2, 1)
        self.e = nn.Parameter(torch.randn(4, 32, 16, 3, 3) * 0.1)
        self.r = nn.Linear(16, 4)
        self.h = nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.stem(x))
        r = torch.softmax(self.r(x.mean((2, 3))), -1)
        B, C, H, W = x.shape
        w = torch.einsum("be,eoikl->boikl", r, self.e).reshape(B * 32, C, 3, 3)
        y = F.conv2d(x.reshape(1, B * C, H, W), w, padding=1, groups=B).view(B, 32, H, W)
        return self.h(F.relu(y).mean((2, 3)))


class STFT(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Sequential(
            nn.Conv2d(2, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 10),
        )
        self.register_buffer("w", torch.hann_window(256))

    def forward(self, x):
        f = torch.stft(x, 256, 64, window=self.w, return_complex=True)
        return self.c(torch.view_as_real(f).permute(0, 3, 1, 2))


class GFNet(nn.Module):
    def __init__(self, d=48):
        super().__init__()
        self.p = nn.Conv2d(3, d, 4, 4)
        self.w = nn.ParameterList(nn.Parameter(torch.randn(16, 9, d, 2) * 0.02) for _ in range(2))
        self.n = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))
        self.m = nn.ModuleList(nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d)) for _ in range(2))
        self.h = nn.Linear(d, 10)

    def forward(self, x):
        x = self.p(x).permute(0, 2, 3, 1)
        for w, n, m in zip(self.w, self.n, self.m):
            y = torch.fft.rfft2(n(x), dim=(1, 2), norm="ortho") * torch.view_as_complex(w)
            x = x + m(torch.fft.irfft2(y, s=x.shape[1:3], dim=(1, 2), norm="ortho"))
        return self.h(x.mean((1, 2)))


class ComplexConv(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w = nn.Parameter(torch.randn(o, i, 3, 3, dtype=torch.cfloat) * 0.1)

    def forward(self, x):
        return F.conv2d(x, self.w, padding=1)


class CNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = ComplexConv(1, 8)
        self.b = ComplexConv(8, 16)
        self.h = nn.Linear(16, 10)

    def forward(self, x):
        x = torch.fft.fft2(x)
        x = self.a(x)
        x = torch.complex(F.relu(x.real), F.relu(x.imag))
        return self.h(self.b(x).abs().mean((2, 3)))


class Permuted(nn.Module):
    def __init__(self, *l):
        super().__init__()
        self.l = nn.Sequential(*l)

    def forward(self, x):
        return self.l(x.permute(0, 3, 1, 2))


class Lastwards(nn.Module):
    def __init__(self, *l):
        super().__init__()
        self.l = nn.Sequential(*l)

    def forward(self, x):
        return self.l(x.contiguous(memory_format=torch.channels_last))


class Lasts_in(nn.Module):
    def forward(self, x):
        return x.contiguous(memory_format=torch.channels_last)


class DepthwisePart(nn.Module):
    def __init__(self, c=48):
        super().__init__()
        self.a = nn.Linear(3, 3 * c)
        self.d = nn.Conv2d(c, c, 5, padding=2, groups=c)
        self.o = nn.Linear(c, 10)

    def forward(self, x):
        g, v, q = self.a(x).permute(0, 3, 1, 2).chunk(3, 1)
        y = F.gelu(self.d(v)) * g + q
        return self.o(y.mean((2, 3)))


class ComplexScan(nn.Module):
    def __init__(self, d=16, n=8):
        super().__init__()
        self.a = nn.Parameter(torch.randn(d, n, 2))
        self.b = nn.Linear(d, n)
        self.c = nn.Linear(d, n)
        self.o = nn.Linear(d, 5)

    def forward(self, x):
        A = torch.exp(torch.view_as_complex(self.a) * 0.01)
        h = 0
        ys = []
        b, c = self.b(x), self.c(x)
        for t in range(x.shape[1]):
            h = h * A + x[:, t, :, None] * b[:, t, None, :]
            ys.append((h * c[:, t, None, :]).real.sum(-1))
        return self.o(torch.stack(ys, 1).mean(1))


class FourierConv(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 24, 3, padding=1)
        self.b = nn.BatchNorm2d(48)
        self.d = nn.Conv2d(48, 24, 1)
        self.b2 = nn.BatchNorm2d(24)
        self.o = nn.Conv2d(24, 10, 1)

    def forward(self, x):
        x = F.relu(self.c(x))
        f = torch.fft.rfftn(x, dim=(-2, -1), norm="ortho")
        f = torch.stack((f.real, f.imag), -1).permute(0, 1, 4, 2, 3).contiguous().view(x.shape[0], -1, *f.shape[2:])
        f = F.relu(self.b(torch.cat([self.d(f), self.d(f)], 1)))
        f = f.view(x.shape[0], -1, 2, *f.shape[2:]).permute(0, 1, 3, 4, 2).contiguous()
        return self.o(self.b2(torch.fft.irfftn(torch.complex(f[..., 0], f[..., 1]), s=x.shape[-2:], dim=(-2, -1), norm="ortho"))).mean(
            (2, 3)
        )


class AFNO(nn.Module):
    def __init__(self, d=32, k=4):
        super().__init__()
        self.p = nn.Conv2d(3, d, 4, 4)
        self.k = k
        b = d // k
        self.w1 = nn.Parameter(0.02 * torch.randn(2, k, b, b))
        self.b1 = nn.Parameter(torch.zeros(2, k, b))
        self.n = nn.LayerNorm(d)
        self.o = nn.Linear(d, 10)

    def forward(self, x):
        x = self.p(x).permute(0, 2, 3, 1)
        B, H, W, C = x.shape
        y = torch.fft.rfft2(self.n(x), dim=(1, 2), norm="ortho").reshape(B, H, W // 2 + 1, self.k, C // self.k)
        r = F.relu(torch.einsum("...bi,bio->...bo", y.real, self.w1[0]) - torch.einsum("...bi,bio->...bo", y.imag, self.w1[1]) + self.b1[0])
        i = F.relu(torch.einsum("...bi,bio->...bo", y.imag, self.w1[0]) + torch.einsum("...bi,bio->...bo", y.real, self.w1[1]) + self.b1[1])
        z = torch.view_as_complex(F.softshrink(torch.stack([r, i], -1), 0.01)).reshape(B, H, W // 2 + 1, C)
        return self.o((x + torch.fft.irfft2(z, s=(H, W), dim=(1, 2), norm="ortho")).mean((1, 2)))


class FourierFrames(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 16, 3, padding=1)
        self.d = nn.Conv2d(16, 32, 3, 2, 1)
        self.o = nn.Linear(32, 4)

    def forward(self, x):
        B, T = x.shape[:2]
        f = torch.fft.ifft2(torch.fft.fft2(x)).real
        y = self.d(F.relu(self.c(f.flatten(0, 1)))).mean((2, 3))
        return self.o(y.view(B, T, -1).mean(1))


class RotatedWindows(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.q = nn.Linear(d, 3 * d)
        self.o = nn.Linear(d, 8)

    def forward(self, x):
        B, N, D = x.shape
        w = x.view(B * 4, N // 4, D)
        q, k, v = self.q(w).view(B * 4, N // 4, 3, 4, D // 4).permute(2, 0, 3, 1, 4)
        r = torch.view_as_real(torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2).contiguous()) * 1j).flatten(-2)
        return self.o(F.scaled_dot_product_attention(r, k, v).transpose(1, 2).reshape(B, N, D).mean(1))


I = (4, 3, 32, 32)
GELU = lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))
class Padded(nn.Module):
    """Convolutions whose program pads before them: around (`ZeroPad2d`), behind as TensorFlow does, or in front (causal)."""

    def __init__(self, convolution, channels, sides, norm=None):
        super().__init__()
        self.convs = nn.ModuleList([convolution(channels if n == 0 else 32, 32, 3) for n in range(4)])
        self.norms = nn.ModuleList([norm(32) if norm else nn.Identity() for _ in range(4)])
        self.sides = sides
        self.f = nn.Linear(32, 10)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = F.relu(norm(conv(F.pad(x, self.sides))))
        return self.f(x.flatten(2).mean(2))


class PadsOnce(nn.Module):
    """Two convolutions of one padded tensor, and a maximum and a mean that pad by themselves and before."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 32, 3, padding=1)
        self.b = nn.Conv2d(32, 32, 3)
        self.c = nn.Conv2d(32, 32, 3)
        self.f = nn.Linear(32, 10)

    def forward(self, x):
        x = F.pad(F.relu(self.a(x)), (1, 1, 1, 1))
        x = F.relu(self.b(x)) + F.relu(self.c(x))
        x = F.max_pool2d(F.pad(x, (0, 1, 0, 1), value=float("-inf")), 3, 2)
        return self.f(F.avg_pool2d(x, 3, 1, 1).mean([2, 3]))


NETS = {
    "scalar": (Scalar, (8, 16)),
    **{"layerscale_" + f: (lambda f=f: LayerScale(f), I) for f in ("view", "reshape", "unsqueeze", "none", "none4")},
    "gru_last": (lambda: Rnn(nn.GRU), (16, 20, 24)),
    "lstm_last": (lambda: Rnn(nn.LSTM), (16, 20, 24)),
    "gru2": (lambda: Rnn(nn.GRU, 2, 0.1, bi=True), (16, 20, 24)),
    "lstm2_drop": (lambda: Rnn(nn.LSTM, 2, 0.2), (16, 20, 24)),
    "lstm_all": (lambda: Rnn(nn.LSTM, 1, last=False, bi=True), (16, 20, 24)),
    "rnn": (lambda: Rnn(nn.RNN, 1, last=False), (16, 20, 24)),
    "pool_none": (Pool, I),
    "unfold": (Fold, I),
    "col2im": (ColIm, I),
    "weight_std": (WeightStd, I),
    "norm_w": (NormW, (16, 32)),
    "dcgan": (Gan, (8, 32, 1, 1)),
    "gelu_tanh": (lambda: act(GELU), (128, 64)),
    "gelu_erf": (lambda: act(lambda x: x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))), (128, 64)),
    "hswish": (lambda: act(lambda x: x * F.relu6(x + 3) / 6), (128, 64)),
    "mish": (lambda: act(lambda x: x * torch.tanh(F.softplus(x))), (128, 64)),
    "xsig": (lambda: act(lambda x: x * torch.sigmoid(x)), (128, 64)),
    "cross": (Cross, (4, 20, 16)),
    "ln": (LN, (256, 64)),
    "drop2d": (Drop2d, I),
    "moe": (Moe, (64, 32)),
    "glu": (Glu, (8, 8, 64)),
    "vol": (Vol, (2, 1, 16, 16, 16)),
    "inplace": (Inplace, I),
    "reflect": (RPad, I),
    "unet": (Unet, (2, 3, 32, 32)),
    "gelumlp": (GeluMlp, (128, 48)),
    "annotated": (AnnotatedTransformer, (8, 24, 16)),
    "drop3": (Drop3, I),
    "wsnet": (WSNet, I),
    "cosine": (Cosine, I),
    "mdn": (Mdn, (256, 20)),
    "swiglu": (Swiglu, (16, 32)),
    "se": (Se, I),
    "patchfold": (PatchFold, I),
    "localattn": (LocalAttn, I),
    "maxhead": (MaxHead, (8, 3, 256)),
    "amax": (Amax, (8, 256, 3)),
    "gated": (Gated, (8, 4, 64)),
    "focal": (Focal, (4, 3, 64, 64)),
    "softplus": (Softplus2, (256, 16)),
    "fcn": (Fcn, I),
    "tcn": (Tcn, (16, 8, 128)),
    "wnorm": (Spectral, I),
    "squash": (Squash, I),
    "mixer": (Mixer2, (16, 32, 48)),
    "rbf": (Rbf, (256, 12)),
    "reentrant": (Segments, I),
    "lstm_mean": (LstmMean, (16, 20, 24)),
    "lstm_proj": (lambda: LstmMean(32), (16, 20, 24)),
    "vol_mean": (VolMean, (2, 3, 12, 16, 16)),
    "channels_last": (lambda: Lasts().to(memory_format=torch.channels_last), I),
    "orthogonal": (Orthogonal, (8, 32)),
    "upsampled": (Upsampled, (8, 4, 64)),
    "std": (StdNorm, (256, 64)),
    "var": (VarScale, (256, 64)),
    "einsum3": (Einsum3, (32, 40, 24)),
    "trilinear": (TriLinear, (16, 24, 24)),
    "biaffine": (Biaffine, (8, 24, 40)),
    "biaffine_mm": (BiaffineMatmul, (8, 24, 40)),
    "logsig": (LogSig, (256, 64)),
    "slice_add": (SliceAdd, (16, 32, 32)),
    "slice_set": (SliceSet, I),
    "gathers": (Gathers, (16, 48, 16)),
    "tied_t": (TiedT, (64, 400)),
    "inst_group": (InstGroup, I),
    "kan": (lambda: nn.Sequential(Kan(16, 64), Kan(64, 10)), (128, 16)),
    "linattn": (LinAttn, (16, 48, 16)),
    "adain": (Adain, I),
    "nonlocal": (NonLocal, I),
    "ista": (SoftThresh, (256, 40)),
    "bilinear": (BilinearM, (128, 32)),
    "fno": (FNO, (4, 3, 64, 64)),
    "s4": (S4Net, (4, 256, 1)),
    "stylegan": (StyleGAN, (4, 32)),
    "dynconv": (DynConv, (4, 3, 64, 64)),
    "stft": (STFT, (4, 4096)),
    "gfnet": (GFNet, (4, 3, 64, 64)),
    "complex_conv": (CNet, (4, 1, 32, 32)),
    "complex_scan": (ComplexScan, (4, 32, 16)),
    "ffc": (FourierConv, I),
    "afno": (AFNO, (4, 3, 64, 64)),
    "fourier_frames": (FourierFrames, (2, 4, 3, 24, 24)),
    "rotated": (RotatedWindows, (4, 64, 32)),
    "transposed_last": (
        lambda: Permuted(nn.ConvTranspose2d(16, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)),
        (4, 16, 16, 16),
    ),
    "conv_last": (
        lambda: Lastwards(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)),
        (4, 16, 32, 32),
    ),
    "vq_last": (
        lambda: Permuted(
            nn.Conv2d(8, 24, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, 1, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(48, 24, 4, 2, 1),
            nn.ReLU(),
            nn.ConvTranspose2d(24, 3, 3, 1, 1),
        ),
        (4, 32, 32, 8),
    ),
    "depthwise_part": (DepthwisePart, (4, 16, 16, 3)),
    "volume_one": (
        lambda: nn.Sequential(
            nn.Conv3d(1, 8, 3, padding=1),
            nn.BatchNorm3d(8),
            nn.ReLU(),
            nn.MaxPool3d(2),
            nn.Conv3d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv3d(16, 2, 3, padding=1),
        ),
        (1, 1, 32, 32, 32),
    ),
    "wide_groups": (lambda: nn.Sequential(nn.Conv1d(768, 768, 128, padding=64, groups=16)), (2, 768, 50)),
    "transposed_rgb": (lambda: nn.Sequential(nn.ConvTranspose2d(64, 3, 3, 1, 1)), (4, 64, 64, 64)),
    "norm_pooled": (
        lambda: nn.Sequential(Lasts_in(), nn.Conv2d(3, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        (8, 3, 96, 96),
    ),
    "padded_around": (lambda: Padded(nn.Conv2d, 3, (1, 1, 1, 1)), (4, 3, 64, 64)),
    "padded_and_folded": (lambda: Padded(nn.Conv2d, 3, (1, 1, 1, 1), nn.BatchNorm2d), (4, 3, 64, 64)),
    "padded_behind": (lambda: Padded(nn.Conv2d, 3, (0, 2, 0, 2)), (4, 3, 64, 64)),
    "causal": (lambda: Padded(nn.Conv1d, 8, (2, 0)), (4, 8, 1024)),
    "pads_once": (PadsOnce, (4, 3, 64, 64)),
    "same_even": (lambda: nn.Sequential(nn.Conv2d(3, 32, 4, padding="same"), nn.ReLU(), nn.Conv2d(32, 32, 3, padding="same", dilation=2)), (4, 3, 64, 64)),
    "depthwise_volume": (lambda: nn.Sequential(nn.Conv3d(24, 24, 3, padding=1, groups=24)), (2, 24, 16, 16, 16)),
}

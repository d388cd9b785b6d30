"""Small modules that hold what networks of today hold."""
import random

import torch
from torch import nn


class Block(nn.Module):
    """A residual block with a depthwise convolution, as in MobileNetV2 (Sandler et al. 2018)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.expand = nn.Sequential(nn.Conv2d(width, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(hidden, hidden, 3, padding=1, groups=hidden, bias=False), nn.BatchNorm2d(hidden), nn.ReLU())
        self.project = nn.Sequential(nn.Conv2d(hidden, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return torch.relu(x + self.project(self.depthwise(self.expand(x))))


class Images(nn.Module):
    """A convolution, residual blocks, one in groups, a classifier behind a flattened image."""

    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.blocks = nn.Sequential(Block(16, 48), Block(16, 48))
        self.grouped = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1, groups=4, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        self.tail = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(64 * 8 * 8, classes)

    def forward(self, x):
        return self.classifier(self.tail(self.grouped(self.blocks(self.stem(x)))).flatten(1))


class Words(nn.Module):
    """A small transformer as they are called in transformers: by name, its result a dictionary, the head tied to the words."""

    def __init__(self, rows=100, width=32, heads=4, hidden=64, places=32):
        super().__init__()
        self.words, self.places = nn.Embedding(rows, width), nn.Embedding(places, width)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, hidden, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, rows, bias=False)
        self.head.weight = self.words.weight

    def forward(self, input_ids=None, labels=None, *, use_cache=False, **_):
        x = self.words(input_ids) + self.places(torch.arange(input_ids.shape[1], device=input_ids.device))
        for layer in self.layers:
            x = layer(x)
        logits = self.head(x)
        result = {"logits": logits, "past_key_values": [(x, x)]}
        if labels is not None:
            result["loss"] = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return result


class Attention(nn.Module):
    """Attention whose number of heads stands in its code."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.width = heads, width
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, places, _ = x.shape
        q, k, v = self.qkv(x).reshape(batch, places, 3, self.heads, self.width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) * (self.width // self.heads) ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, places, self.width))


class Tokens(nn.Module):
    """Two blocks of that attention."""

    def __init__(self, width=32):
        super().__init__()
        self.words = nn.Embedding(50, width)
        self.attentions = nn.ModuleList(Attention(width) for _ in range(2))
        self.mlps = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 96), nn.GELU(), nn.Linear(96, width)) for _ in range(2))
        self.classify = nn.Linear(width, 5)

    def forward(self, ids):
        x = self.words(ids)
        for attention, mlp in zip(self.attentions, self.mlps):
            x = x + attention(x)
            x = x + mlp(x)
        return self.classify(x.mean(1))


class Doubtful(nn.Module):
    """Runs one layer or two, by what its input holds."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else self.b(self.a(x))


class Guarded(nn.Module):
    """Looks at its input, and always does the same."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        if torch.isnan(x).any():
            raise ValueError("not a number")
        return self.a(x)


class Placed(nn.Module):
    """Tokens, to which the first rows of a table are added that whoever makes one has to give."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(32, 32), nn.Linear(32, 5)

    def forward(self, tokens):
        return self.write((self.read(tokens) + self.table[:, :tokens.shape[1]]).mean(1))


class Spelled(nn.Module):
    """The activation of GPT-2 as transformers writes it (`NewGELUActivation`), whose parts autograd keeps one by one."""

    def __init__(self, width=64, hidden=256):
        super().__init__()
        self.read, self.write = nn.Linear(width, hidden), nn.Linear(hidden, 10)

    def forward(self, x):
        x = self.read(x)
        return self.write(0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0)))))


class Ungraded(nn.Module):
    """Convolutions that autograd does not record: in front of those that learn, or behind the first of them, as a target is computed."""

    def __init__(self, behind=False):
        super().__init__()
        self.behind = behind
        self.first, self.last = nn.Conv2d(3, 96, 3, 4, 1), nn.Conv2d(96, 64, 3, padding=1)
        self.fixed = nn.Sequential(nn.Conv2d(3, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 96, 3, 2, 1), nn.ReLU(), nn.Conv2d(96, 96, 3, 2, 1))
        self.classes = nn.Linear(64 * 64, 20)

    def forward(self, x):
        read = self.first(x) if self.behind else 0
        with torch.no_grad():
            fixed = self.fixed(x)
        return self.classes(self.last(read + fixed).relu().flatten(1))


class Recurrent(nn.Module):
    """A classifier that reads the last hidden states of both ways alone."""

    def __init__(self, kind, layers=1):
        super().__init__()
        self.layer, self.classify = kind(16, 32, layers, batch_first=True, bidirectional=True), nn.Linear(64, 5)

    def forward(self, x):
        _, last = self.layer(x)
        last = last[0] if isinstance(last, tuple) else last
        return self.classify(torch.cat([last[-2], last[-1]], 1))


class Crossed(nn.Module):
    """Learned queries that attend to features of the input, as DETR's decoder (Carion et al. 2020)."""

    def __init__(self, width=32):
        super().__init__()
        self.decoder, self.queries = nn.TransformerDecoderLayer(width, 4, 64, batch_first=True), nn.Parameter(torch.randn(10, width))
        self.read, self.classify = nn.Linear(16, width), nn.Linear(width, 6)

    def forward(self, x):
        return self.classify(self.decoder(self.queries.unsqueeze(0).expand(x.shape[0], -1, -1), self.read(x)))


class Halved(nn.Module):
    """Halves of an image's channels that go different ways, as in YOLOv8's C2f."""

    def __init__(self):
        super().__init__()
        self.stem, self.inner = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.tail, self.classify = nn.Conv2d(48, 24, 1), nn.Linear(24, 4)

    def forward(self, x):
        kept, bent = torch.relu(self.stem(x)).chunk(2, 1)
        return self.classify(torch.relu(self.tail(torch.cat([kept, bent, torch.relu(self.inner(bent))], 1))).mean((2, 3)))


class Unfolded(nn.Module):
    """A linear layer over windows that lie turned, which adds its bias in place."""

    def __init__(self):
        super().__init__()
        self.windows, self.read, self.classify = nn.Unfold(3, padding=1), nn.Linear(27, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.classify(self.read(self.windows(x).transpose(1, 2)).mean(1))


class Masked(nn.Module):
    """Scores that are hidden where positions are not one behind the other, which the code looks at, as transformers do for samples that are packed."""

    def __init__(self):
        super().__init__()
        self.table, self.classify = nn.Embedding(50, 32), nn.Linear(32, 4)

    def forward(self, words):
        positions, hidden = torch.arange(words.shape[1]), self.table(words)
        if not bool((positions[1:] - positions[:-1] == 1).all()):
            hidden = hidden * hidden.sigmoid() * hidden.tanh()
        return self.classify(hidden.mean(1))


class Painted(nn.Module):
    """Classes of pixels: as many labels as pixels, which lie there from the start."""

    def __init__(self):
        super().__init__()
        self.widen, self.paint = nn.Linear(32, 64), nn.Linear(64, 4)

    def forward(self, x):
        return self.paint(torch.relu(self.widen(x.movedim(1, -1)))).movedim(-1, 1)


class Pooled(nn.Module):
    """A layer norm whose gradient comes in turned, as in Swin, behind a layer over tokens; and a weight that nothing reads."""

    def __init__(self):
        super().__init__()
        self.unread = nn.Parameter(torch.zeros(7, 11))
        self.read, self.widen, self.shrink = nn.Linear(32, 32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.norm, self.classify = nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x):
        x = self.read(x)
        hidden = self.norm(x + self.shrink(nn.functional.gelu(self.widen(x))))
        return self.classify(nn.functional.adaptive_avg_pool1d(hidden.transpose(1, 2), 1).flatten(1))


class Twice(nn.Module):
    """A normalisation whose code writes the same difference twice, which exporters merge."""

    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(64, 256), nn.Linear(256, 10)

    def forward(self, x):
        x = self.read(x)
        mean = x.mean(-1, keepdim=True)
        return self.write((x - mean) / ((x - mean).pow(2).mean(-1, keepdim=True) + 1e-5).sqrt())


class Scaled(nn.Module):
    """Layer scale (Touvron et al. 2021): a number for every channel, brought to the image's shape in one of the ways that people write."""

    FORMS = {
        "view": lambda scale: scale.view(1, -1, 1, 1), "reshape": lambda scale: scale.reshape(1, -1, 1, 1),
        "unsqueeze": lambda scale: scale.unsqueeze(-1).unsqueeze(-1), "none": lambda scale: scale[:, None, None],
    }

    def __init__(self, form):
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.scale, self.classify, self.form = nn.Parameter(torch.rand(16)), nn.Linear(16, 10), form

    def forward(self, x):
        x = self.stem(x)
        return self.classify((x + torch.relu(self.block(x)) * self.FORMS[self.form](self.scale)).mean((2, 3)))


class Shaped(nn.Module):
    """Layer scale as timm's MetaFormer has it: the module notes the shape that it sees its parameter in."""

    def __init__(self, width):
        super().__init__()
        self.scale, self.shape = nn.Parameter(torch.rand(width)), (width, 1, 1)

    def forward(self, x):
        return x * self.scale.view(self.shape)


class Normalised(nn.Module):
    """Global response normalisation (Woo et al. 2023): two parameters of one module."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))

    def forward(self, x):
        norm = x.norm(p=2, dim=(2, 3), keepdim=True)
        norm = norm / (norm.mean(1, keepdim=True) + 1e-6)
        return x + torch.addcmul(self.bias.view(1, -1, 1, 1), self.weight.view(1, -1, 1, 1), x * norm)


def between(part):
    """A network of images around a part of 16 channels."""
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), part, nn.Conv2d(16, 32, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))


class Applied(nn.Module):
    """A function of tokens of 64 numbers, between two linear layers, of which the second reads `width` numbers."""

    def __init__(self, function, width=64):
        super().__init__()
        self.before, self.function, self.after = nn.Linear(32, 64), function, nn.Linear(width, 16)

    def forward(self, x):
        return self.after(self.function(self.before(x))).mean(1)


class Momentum(nn.Module):
    """Layers, and a slow copy of them that the forward itself moves towards them (He et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.quick, self.slow = (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)) for _ in range(2))
        self.slow.requires_grad_(False)

    def forward(self, x):
        with torch.no_grad():
            for slow, quick in zip(self.slow.parameters(), self.quick.parameters()):
                slow.mul_(0.99).add_(quick, alpha=0.01)
        return self.quick(x) + self.slow(x)


class Feeding(nn.Module):
    """The feed-forward part of a transformer on tokens that are numbers already."""

    def __init__(self):
        super().__init__()
        self.wide, self.back, self.classify = nn.Linear(32, 64), nn.Linear(64, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.classify(x + self.back(torch.relu(self.wide(x)))).mean(1)


class Gained(nn.Module):
    """A residual block with a learned number of one element, in some shape."""

    def __init__(self, shape):
        super().__init__()
        self.stem, self.block = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.gain, self.classify = nn.Parameter(torch.ones(shape)), nn.Linear(16, 4)

    def forward(self, x):
        x = self.stem(x)
        return self.classify((x + self.block(x) * self.gain).mean((2, 3)))


class Fixed(nn.Module):
    """Two kinds of layers whose code holds the width of what they compute."""

    def __init__(self):
        super().__init__()
        self.words, self.classify = nn.Embedding(50, 32), nn.Linear(32, 5)
        self.first, self.second = nn.ModuleList(Held() for _ in range(2)), nn.ModuleList(Held() for _ in range(2))
        self.mlp = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 32))

    def forward(self, ids):
        x = self.words(ids)
        for part in [*self.first, *self.second]:
            x = x + part(x)
        return self.classify((x + self.mlp(x)).mean(1))


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.read, self.write = nn.Linear(32, 48), nn.Linear(48, 32)

    def forward(self, x):
        return self.write(torch.relu(self.read(x).reshape(x.shape[0], x.shape[1], 48)))


class OneNumber(nn.Module):
    """A learned number that scales everything."""

    def __init__(self):
        super().__init__()
        self.read, self.scale, self.write = nn.Linear(8, 8), nn.Parameter(torch.ones(())), nn.Linear(8, 4)

    def forward(self, x):
        return self.write(torch.relu(self.read(x)) * self.scale)


class Magnified(nn.Module):
    """A small image that is made four times as wide and high, which takes the most memory of all."""

    def __init__(self):
        super().__init__()
        self.read, self.classify = nn.Conv2d(3, 32, 3, padding=1), nn.Linear(32, 10)

    def forward(self, x):
        return self.classify(nn.functional.interpolate(self.read(x), scale_factor=4, mode="bilinear").mean((2, 3)))


class RunAgain(nn.Module):
    """Segments that run again in backward, in PyTorch's older way."""

    def __init__(self):
        super().__init__()
        self.read, self.classify = nn.Linear(8, 32), nn.Linear(32, 4)
        self.deep = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        x = self.read(x)
        for segment in self.deep:
            x = torch.utils.checkpoint.checkpoint(segment, x, use_reentrant=True)
        return self.classify(x)


class Paired(nn.Module):
    """Weights that are read as pairs, which must be adjacent in memory."""

    def __init__(self):
        super().__init__()
        self.pairs, self.classify = nn.Parameter(torch.rand(8, 8, 2)), nn.Linear(8, 4)

    def forward(self, x):
        return self.classify(x @ torch.view_as_real(torch.view_as_complex(self.pairs)).sum(2))


class Averaged(nn.Module):
    """An LSTM whose results of all time steps are averaged, with a projection or without (Sak et al. 2014)."""

    def __init__(self, projection=0):
        super().__init__()
        self.layer, self.classify = nn.LSTM(24, 64, batch_first=True, proj_size=projection), nn.Linear(projection or 64, 5)

    def forward(self, x):
        return self.classify(self.layer(x)[0].mean(1))


class Segments(nn.Module):
    """Convolutions in segments that run again in backward."""

    def __init__(self):
        super().__init__()
        self.stem, self.classify = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 5)
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU()) for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=True)
        return self.classify(x.mean((2, 3)))


class Bags(nn.Module):
    """Means of looked-up entries, as in recommendation (Naumov et al. 2019), and layers behind them."""

    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(100, 32)
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))

    def forward(self, entries):
        return self.layers(self.table(entries))


class Greatest(nn.Module):
    """An operator that no exporter of PyTorch writes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))

    def forward(self, x):
        return self.layers(torch.cummax(self.layers(x), 1)[0])


class Unpooled(nn.Module):
    """A pooling whose places the next layer reads, as in SegNet."""

    def __init__(self):
        super().__init__()
        self.stem, self.down, self.up = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(2, return_indices=True), nn.MaxUnpool2d(2)

    def forward(self, images):
        return self.up(*self.down(self.stem(images)))


class Attentive(nn.Module):
    """PyTorch's own attention between two layers, and nothing else."""

    def __init__(self):
        super().__init__()
        self.first, self.attention, self.last = nn.Linear(16, 32), nn.MultiheadAttention(32, 4, batch_first=True), nn.Linear(32, 4)

    def forward(self, words):
        words = self.first(words)
        return self.last(self.attention(words, words, words)[0].mean(1))


class Upsampled(nn.Module):
    """A sequence that a transposed convolution makes twice as long, as in generators of sound."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(4, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose1d(16, 8, 4, 2, 1), nn.ReLU(), nn.Conv1d(8, 8, 3, padding=1))
        self.classify = nn.Linear(8, 5)

    def forward(self, x):
        return self.classify(self.layers(x).mean(2))


class Adapter(nn.Module):
    """A linear layer with a low-rank update (LoRA, Hu et al. 2021) whose factors are parameters."""

    def __init__(self, width, result, rank=4):
        super().__init__()
        self.layer = nn.Linear(width, result)
        self.down, self.up = nn.Parameter(torch.rand(rank, width)), nn.Parameter(torch.rand(result, rank))

    def forward(self, x):
        return self.layer(x) + x @ self.down.t() @ self.up.t()


class Adapted(nn.Module):
    """Such layers and others."""

    def __init__(self):
        super().__init__()
        self.words, self.adapters = nn.Embedding(50, 32), nn.ModuleList([Adapter(32, 64), Adapter(64, 32)])
        self.mlp, self.classify = nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 32)), nn.Linear(32, 5)

    def forward(self, ids):
        x = self.words(ids)
        for adapter in self.adapters:
            x = torch.relu(adapter(x))
        return self.classify((x + self.mlp(x)).mean(1))


class Attending(nn.Module):
    """PyTorch's own attention, whose projections of queries, keys and values are one parameter, and a classifier."""

    def __init__(self, width=32):
        super().__init__()
        self.attention, self.classify = nn.MultiheadAttention(width, 4, batch_first=True), nn.Linear(width, 5)

    def forward(self, x):
        return self.classify((x + self.attention(x, x, x, need_weights=False)[0]).mean(1))


class Letters(nn.Module):
    """Words by their letters: a convolution of every word, whose batch is that of the words of all samples."""

    def __init__(self):
        super().__init__()
        self.letters, self.convolution, self.classifier = nn.Embedding(60, 12), nn.Conv1d(12, 24, 3, padding=1), nn.Linear(24, 5)

    def forward(self, ids):
        samples, words, letters = ids.shape
        read = self.letters(ids).view(samples * words, letters, -1).transpose(1, 2)
        return self.classifier(self.convolution(read).max(2)[0].view(samples, words, -1)).mean(1)


class Turned(nn.Module):
    """Tokens as an image, which a convolution reads: with its channels last, or made contiguous before or after it is seen as one."""

    def __init__(self, contiguous):
        super().__init__()
        self.tokens, self.convolution, self.classifier = nn.Linear(8, 32), nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 4, 1)
        self.contiguous = contiguous

    def forward(self, x):
        read = self.tokens(x)
        if self.contiguous == "before":
            image = read.transpose(1, 2).contiguous().view(x.shape[0], 32, 32, 32)
        else:
            image = read.view(x.shape[0], 32, 32, 32).permute(0, 3, 1, 2)
            image = image.contiguous() if self.contiguous == "after" else image
        return self.classifier(torch.relu(self.convolution(image)))


class Windows(nn.Module):
    """Windows along an axis that is counted from the last, each with a position."""

    def __init__(self):
        super().__init__()
        self.layer, self.positions, self.classifier = nn.Linear(8, 32), nn.Parameter(torch.zeros(8, 32)), nn.Linear(32, 4)

    def forward(self, x):
        windows = x.unfold(-2, 8, 8).transpose(-2, -3)
        return self.classifier((self.layer(windows) + self.positions).mean(2)).mean(1)


class Joined(nn.Module):
    """A dense block, whose last convolution gets its gradient as a part of that of all channels."""

    def __init__(self):
        super().__init__()
        self.first, self.layer, self.classifier = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 12, 3, padding=1), nn.Linear(28, 5)

    def forward(self, x):
        x = self.first(x)
        return self.classifier(torch.cat([x, self.layer(x.relu())], 1).mean((2, 3)))


class Unread(nn.Module):
    """Gated convolutions whose outputs are added up, as in WaveNet: the last of them makes one more that nothing reads."""

    def __init__(self):
        super().__init__()
        self.layer, self.classifier = nn.Conv1d(1, 32, 1), nn.Linear(32, 4)
        self.gates = nn.ModuleList(nn.Conv1d(32, 64, 2, dilation=dilation) for dilation in (1, 2))
        self.added, self.next = (nn.ModuleList(nn.Conv1d(32, 32, 1) for _ in range(2)) for _ in range(2))

    def forward(self, x):
        x, total = self.layer(x), 0
        for gate, added, following in zip(self.gates, self.added, self.next):
            a, b = gate(nn.functional.pad(x, (gate.dilation[0], 0))).chunk(2, 1)
            z = a.tanh() * b.sigmoid()
            total, x = total + added(z), x + following(z)
        return self.classifier(total.relu().mean(-1))


class Waves(nn.Module):
    """Convolutions between Fourier transforms, whose weights are complex numbers, as in Fourier neural operators (Li et al. 2021): no exporter writes these."""

    def __init__(self, width=16, modes=6):
        super().__init__()
        self.modes, self.weight = modes, nn.Parameter(torch.randn(width, width, modes, modes, 2) / width)
        self.first, self.beside, self.last = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, width, 1), nn.Conv2d(width, 4, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        waves = torch.fft.rfft2(x)
        kept = torch.einsum("bixy,ioxy->boxy", waves[:, :, :self.modes, :self.modes], torch.view_as_complex(self.weight))
        made = torch.zeros_like(waves)
        made[:, :, :self.modes, :self.modes] = kept
        return self.last(nn.functional.gelu(torch.fft.irfft2(made, s=x.shape[-2:]) + self.beside(x)))


class Spectra(nn.Module):
    """Convolutions of a sound's spectrum, an image whose channels come last in memory."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU())
        self.classifier = nn.Linear(32, 4)

    def forward(self, x):
        spectrum = torch.stft(x, 64, 16, window=torch.ones(64), return_complex=True)
        return self.classifier(self.layers(torch.view_as_real(spectrum).permute(0, 3, 1, 2)).mean((2, 3)))


class Rotated(nn.Module):
    """Attention within windows, whose queries and keys are turned as complex numbers."""

    def __init__(self, width=32, windows=4, heads=4):
        super().__init__()
        self.windows, self.heads, self.of_all, self.classifier = windows, heads, nn.Linear(width, 3 * width), nn.Linear(width, 4)

    def forward(self, x):
        samples, tokens, width = x.shape
        parts = self.of_all(x).view(samples * self.windows, tokens // self.windows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        turned = [torch.view_as_real(torch.view_as_complex(part.reshape(*part.shape[:-1], -1, 2).contiguous()) * 1j).flatten(-2) for part in parts[:2]]
        attended = nn.functional.scaled_dot_product_attention(*turned, parts[2])
        return self.classifier(attended.transpose(1, 2).reshape(samples, tokens, width).mean(1))


class Compared(nn.Module):
    """Samples that are compared with all others of their batch, as in SimCLR (Chen et al. 2020)."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16 * 16, 16))

    def forward(self, x):
        seen = nn.functional.normalize(self.layers(x))
        like = (seen @ seen.t()).masked_fill(torch.eye(len(x), dtype=torch.bool), -1e9)
        return torch.view_as_real(torch.view_as_complex(like.unsqueeze(-1).expand(-1, -1, 2).contiguous()) * 1j).sum(-1)


class Sharpened(nn.Module):
    """Convolutions whose filters are computed for every sample."""

    def __init__(self):
        super().__init__()
        self.first, self.filters, self.classifier = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(8, 8 * 8 * 9), nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x)
        samples, channels, height, width = x.shape
        filters = self.filters(x.mean((2, 3))).reshape(samples * channels, channels, 3, 3)
        x = nn.functional.conv2d(x.reshape(1, samples * channels, height, width), filters, padding=1, groups=samples)
        return self.classifier(x.view(samples, channels, height, width).relu().mean((2, 3)))


class Chosen(nn.Module):
    """A layer, and the loss that the module itself computes from it and from what it reads."""

    def __init__(self, loss):
        super().__init__()
        self.layer, self.loss = nn.Linear(64, 64), loss

    def forward(self, x):
        return self.loss(self.layer(x), x)


class Turning(nn.Module):
    """A product with a matrix of complex numbers."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 512, dtype=torch.cfloat))

    def forward(self, x):
        return (x.to(torch.cfloat) @ self.weight).abs()


class Upside(nn.Module):
    """Layers of images whose channels come last in memory, transposed ones too, though their filters lie as usual."""

    def __init__(self, *layers):
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x.permute(0, 3, 1, 2))


class Padded(nn.Module):
    """Samples of sound, padded to whole windows by numbers that are buffers, as transformers' Encodec does, and an activation that is spelled out."""

    def __init__(self):
        super().__init__()
        self.layer, self.classifier = nn.Conv1d(1, 32, 8, stride=4), nn.Linear(32, 4)
        for name, number in [("kernel", 8), ("stride", 4)]:
            self.register_buffer(name, torch.tensor(number, dtype=torch.int64), persistent=False)

    def forward(self, x):
        windows = torch.ceil((x.shape[-1] - self.kernel) / self.stride + 1).to(torch.int64) - 1
        x = self.layer(nn.functional.pad(x, (0, int(windows * self.stride + self.kernel - x.shape[-1]))))
        return self.classifier((x * torch.tanh(x + 0.1 * torch.pow(x, 3.0))).mean(2))


class Losing(nn.Module):
    """A network that gives nothing but its own losses."""

    def __init__(self, losses=1):
        super().__init__()
        self.layers, self.losses = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64)), losses

    def forward(self, x):
        loss = (self.layers(x) - x).pow(2).mean()
        return loss if self.losses == 1 else [loss * (place + 1) for place in range(self.losses)]


class Trailing(nn.Module):
    """Two towers, one of which is trained and the other follows it as `update` writes its weights (MoCo, He et al. 2020; DINO, Caron et al. 2021)."""

    def __init__(self, update):
        super().__init__()
        self.fast, self.slow = self.tower(), self.tower().requires_grad_(False)
        self.head, self.update = nn.Linear(64, 64), update

    @staticmethod
    def tower():
        last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 64)]
        return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), *last)

    @torch.no_grad()
    def forward(self, x):
        self.update(list(self.slow.parameters()), list(self.fast.parameters()))
        for slow, fast in zip(self.slow.buffers(), self.fast.buffers()):
            slow.copy_(fast)
        target = self.slow(x)
        with torch.enable_grad():
            return self.head(self.fast(x)) - target


class Remembering(nn.Module):
    """Attention across what the step before left, too (Transformer-XL, Dai et al. 2019)."""

    def __init__(self, width=32, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))
        self.head, self.memories = nn.Linear(width, 5), None

    def forward(self, x):
        memories = []
        for place, layer in enumerate(self.layers):
            context = x if self.memories is None else torch.cat([self.memories[place], x], 1)
            memories.append(x.detach())
            keys, values = layer(context).chunk(2, -1)
            x = x + (x @ keys.transpose(1, 2)).softmax(-1) @ values
        self.memories = memories
        return self.head(x.mean(1))


class Collecting(nn.Module):
    """Keeps what the last three steps gave."""

    def __init__(self):
        super().__init__()
        self.read, self.write, self.kept = nn.Linear(64, 256), nn.Linear(256, 5), []

    def forward(self, x):
        x = torch.relu(self.read(x))
        self.kept = [*self.kept, x.detach()][-3:]
        return self.write(x)


class Skipping(nn.Module):
    """Leaves out layers by chance (LayerDrop, Fan et al. 2020)."""

    def __init__(self, layers=8):
        super().__init__()
        self.layers, self.write = nn.ModuleList(nn.Linear(64, 64) for _ in range(layers)), nn.Linear(64, 5)

    def forward(self, x):
        for layer in self.layers:
            if not self.training or random.random() > 0.5:
                x = torch.relu(layer(x))
        return self.write(x)


class Swapped(nn.Module):
    """Normalises sequences whose channels come last: two layers read what the norm gives, transposed back."""
    def __init__(self, norm, is_copied=False):
        super().__init__()
        self.first, self.norm, self.second, self.last = nn.Linear(16, 64), norm, nn.Linear(64, 64), nn.Linear(64, 5)
        self.is_copied = is_copied

    def forward(self, x):
        x = self.first(x).transpose(1, 2)
        x = self.norm(x.contiguous() if self.is_copied else x).transpose(1, 2)
        return self.last(torch.tanh(self.second(x)) * self.last.weight.mean() + x).mean(1)


class Bent(nn.Module):
    """An element-wise function of transposed numbers."""
    def __init__(self, function):
        super().__init__()
        self.first, self.function, self.second, self.third = nn.Linear(16, 64), function, nn.Linear(64, 8), nn.Linear(64, 8)

    def forward(self, x):
        x = self.function(self.first(x).transpose(1, 2)).transpose(1, 2)
        return (self.second(x) * self.third(x)).mean(1)


class Saving(nn.Module):
    """Runs some of its blocks in checkpoints that are not reentrant."""
    def __init__(self, block, places):
        super().__init__()
        self.blocks, self.last, self.places = nn.ModuleList(block() for _ in range(3)), nn.Linear(64, 3), places

    def forward(self, x):
        for place, block in enumerate(self.blocks):
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if place in self.places else block(x)
        return self.last(x.mean(1))


class Reading(nn.Module):
    """Classifies by what an LSTM gives at every step."""
    def __init__(self, features, hidden, layers):
        super().__init__()
        self.layer, self.classify = nn.LSTM(features, hidden, layers, batch_first=True), nn.Linear(hidden, 5)

    def forward(self, x):
        return self.classify(self.layer(x)[0]).mean(1)


class Plain(nn.Module):
    """Attention of three axes, without heads, in a checkpoint or not."""
    def __init__(self, is_saving):
        super().__init__()
        self.read, self.last, self.is_saving = nn.Linear(64, 192), nn.Linear(64, 5), is_saving

    def attend(self, x):
        return nn.functional.scaled_dot_product_attention(*self.read(x).chunk(3, -1))

    def forward(self, x):
        x = torch.utils.checkpoint.checkpoint(self.attend, x, use_reentrant=False) if self.is_saving else self.attend(x)
        return self.last(x).mean(1)


class Dropping(nn.Module):
    """Leaves out layers by numbers that PyTorch draws, as transformers' LayerDrop does."""
    def __init__(self, share):
        super().__init__()
        self.layers, self.write, self.share = nn.ModuleList(nn.Linear(64, 64) for _ in range(8)), nn.Linear(64, 5), share

    def forward(self, x):
        for layer in self.layers:
            if torch.rand([]) >= self.share:
                x = torch.relu(layer(x))
        return self.write(x)


class Boxes(nn.Module):
    """Looks up how high boxes are, of which the upper edges come first."""
    def __init__(self):
        super().__init__()
        self.heights, self.write = nn.Embedding(16, 32), nn.Linear(32, 4)

    def forward(self, boxes):
        if (boxes < 0).any():
            raise ValueError("no boxes")
        return self.write(self.heights(boxes[:, :, 1] - boxes[:, :, 0])).mean(1)


class Penalised(nn.Module):
    """Gives how its result changes with its input, too, as for a gradient penalty."""
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.Softplus(), nn.Linear(256, 1))

    def forward(self, x):
        x = x.detach().requires_grad_(True)
        y = self.layers(x)
        return torch.cat([y, torch.autograd.grad(y.sum(), x, create_graph=True)[0].norm(dim=1, keepdim=True)], 1)


class Overheard(nn.Module):
    """Reads what its own hook keeps."""
    def __init__(self):
        super().__init__()
        self.first, self.last, self.kept = nn.Linear(8, 8), nn.Linear(8, 2), {}
        self.first.register_forward_hook(lambda part, inputs, result: self.kept.update(first=result))

    def forward(self, x):
        return self.last(torch.relu(self.first(x)) + self.kept["first"])

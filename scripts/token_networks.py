"""Networks that read words, or more than one tensor, small and with random weights: `tok.NAME` of export_networks.py.

Those of `transformers` are made of configurations; nothing is downloaded. An input is the sizes of one sample: of numbers, of ids below a
vocabulary (`Ids`), or of a mask (`Mask`).
"""
import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WORDS, WIDTH = 1000, 32, 64


class Ids(tuple):
    """Sizes of ids of words."""

    below = VOCABULARY


class Kinds(Ids):
    """Sizes of ids of two kinds of sentences."""

    below = 2


class Mask(tuple):
    """Sizes of a mask of integers that keeps everything."""

    kind = torch.int64


class Truths(Mask):
    """Sizes of a mask that keeps everything."""

    kind = torch.bool


def sample(sizes, batch):
    """A batch of an input."""
    if isinstance(sizes, Ids):
        return torch.randint(sizes.below, (batch,) + sizes)
    if isinstance(sizes, Mask):
        return torch.ones((batch,) + sizes, dtype=sizes.kind)
    return torch.randn((batch,) + sizes)


class Encoder(nn.Module):
    """PyTorch's own encoder behind embeddings of words and places."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(WORDS, WIDTH)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, batch_first=True), 2)
        self.head = nn.Linear(WIDTH, 10)
        self.register_buffer("at", torch.arange(WORDS))

    def forward(self, ids):
        return self.head(self.encoder(self.words(ids) + self.places(self.at)).mean(1))


class Block(nn.Module):
    """Causal attention and an MLP."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, words, width = x.shape
        parts = self.project(self.before(x)).split(width, 2)
        query, key, value = [part.view(batch, words, self.heads, width // self.heads).transpose(1, 2) for part in parts]
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, words, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Decoder(nn.Module):
    """As GPT: causal attention, a head that is the table of words."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2 * WORDS, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(2)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        x = self.words(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def stem():
    layers = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Pair(nn.Module):
    """Two images, or an image and a vector."""

    def __init__(self, other):
        super().__init__()
        self.first, self.other, self.head = stem(), other, nn.Linear(64, 10)

    def forward(self, first, other):
        return self.head(torch.cat([self.first(first), self.other(other)], 1))


class Captioned(nn.Module):
    """An image and the mean of the words that a mask keeps."""

    def __init__(self):
        super().__init__()
        self.image, self.words = stem(), nn.Embedding(VOCABULARY, 32, padding_idx=0)
        self.project, self.head = nn.Linear(32, 32), nn.Linear(64, 10)

    def forward(self, image, ids, mask):
        kept = mask.unsqueeze(-1).to(torch.float32)
        words = (self.project(self.words(ids)) * kept).sum(1) / kept.sum(1)
        return self.head(torch.cat([self.image(image), words], 1))


class Heads(nn.Module):
    """Features of three sizes for a detector, and classes: four outputs."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in ((3, 16), (16, 32), (32, 64)))
        self.lateral, self.head = nn.ModuleList(nn.Conv2d(a, 16, 1) for a in (16, 32, 64)), nn.Linear(64, 10)

    def forward(self, image):
        features = []
        for down, lateral in zip(self.down, self.lateral):
            image = functional.relu(down(image))
            features.append(lateral(image))
        return tuple(features) + (self.head(image.mean((2, 3))),)


class Plain(nn.Module):
    """A network of `transformers` with its inputs in order, and of its outputs some."""

    def __init__(self, network, inputs, outputs):
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs

    def forward(self, *given):
        said = self.network(**dict(zip(self.inputs, given)))
        found = tuple(said[output] for output in self.outputs)
        return found if len(found) > 1 else found[0]


def of_transformers(kind, config, inputs, outputs):
    def make():
        import transformers
        network = getattr(transformers, kind)(config(transformers))
        return Plain(network, list(inputs), outputs)
    return make, inputs


IDS, MASK, IMAGE = Ids((WORDS,)), Mask((WORDS,)), (3, 64, 64)
SMALL = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=4, intermediate_size=2 * WIDTH)
BERT = dict(SMALL, vocab_size=VOCABULARY, max_position_embeddings=2 * WORDS)


def bert(transformers):
    return transformers.BertConfig(**BERT)


def distilbert(transformers):
    sizes = dict(dim=WIDTH, n_layers=2, n_heads=4, hidden_dim=2 * WIDTH)
    return transformers.DistilBertConfig(vocab_size=VOCABULARY, max_position_embeddings=2 * WORDS, **sizes)


def gpt2(transformers):
    last = dict(bos_token_id=VOCABULARY - 1, eos_token_id=VOCABULARY - 1)
    sizes = dict(n_embd=WIDTH, n_layer=2, n_head=4, n_positions=2 * WORDS)
    return transformers.GPT2Config(vocab_size=VOCABULARY, use_cache=False, **sizes, **last)


def clip(transformers):
    last = dict(bos_token_id=VOCABULARY - 2, eos_token_id=VOCABULARY - 1)
    text = dict(SMALL, vocab_size=VOCABULARY, max_position_embeddings=WORDS, projection_dim=32, **last)
    vision = dict(SMALL, image_size=64, patch_size=16, projection_dim=32)
    return transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)


# What makes a network, and its inputs by name.
NETWORKS = {
    "encoder": (Encoder, {"ids": IDS}),
    "decoder": (Decoder, {"ids": IDS}),
    "images": (lambda: Pair(stem()), {"left": IMAGE, "right": IMAGE}),
    "vector": (lambda: Pair(nn.Linear(7, 32)), {"image": IMAGE, "vector": (7,)}),
    "captioned": (Captioned, {"image": IMAGE, "ids": IDS, "mask": Truths((WORDS,))}),
    "heads": (Heads, {"image": IMAGE}),
    "bert": of_transformers("BertModel", bert, {"input_ids": IDS, "attention_mask": MASK, "token_type_ids": Kinds((WORDS,))},
                            ["last_hidden_state", "pooler_output"]),
    "bert_words": of_transformers("BertForMaskedLM", bert, {"input_ids": IDS, "attention_mask": MASK}, ["logits"]),
    "bert_classes": of_transformers("BertForSequenceClassification", bert, {"input_ids": IDS}, ["logits"]),
    "distilbert": of_transformers("DistilBertForSequenceClassification", distilbert, {"input_ids": IDS, "attention_mask": MASK}, ["logits"]),
    "gpt2": of_transformers("GPT2LMHeadModel", gpt2, {"input_ids": IDS}, ["logits"]),
    "gpt2_mask": of_transformers("GPT2LMHeadModel", gpt2, {"input_ids": IDS, "attention_mask": MASK}, ["logits"]),
    "clip": of_transformers("CLIPModel", clip, {"input_ids": IDS, "pixel_values": IMAGE, "attention_mask": MASK}, ["text_embeds", "image_embeds"]),
}

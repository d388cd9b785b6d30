#!/usr/bin/env python3
"""Networks that no rule was written for: whether they are answered, and how far memory is off, by the module and by files of both exporters.

    cargo build --release
    PYTHONPATH=python PATH=target/release:$PATH python3 benches/drawn.py [NAME ...] [--rows FILE]

Hand-written networks (`drawn_by_hand.py`), timm's and transformers' at small sizes. What a step takes is what the profiler of PyTorch sees
its allocator do in three real steps of the module itself, with AdamW and gradients freed before each step. Every network is asked about in a
process of its own, on two threads or as many as are asked for. Needs torch, onnx, onnxscript, timm and transformers.
"""
import argparse
import importlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import warnings

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.append(os.path.join(ROOT, "workers"))
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

LIMIT_S = 240
WAYS = ("module", "torchscript", "default")
# timm's, each with the pixels of its images.
TIMM = {
    "eca_nfnet_l0": 96, "cspresnext50": 96, "darknet17": 96, "convnext_atto": 64, "convnextv2_atto": 64, "poolformer_s12": 64,
    "volo_d1_224": 224, "halonet26t": 256, "mobilevit_xs": 128, "hiera_tiny_224": 224, "ese_vovnet19b_dw": 96, "resnetv2_50x1_bit": 64,
    "regnety_002": 96, "gmlp_ti16_224": 224, "beit_base_patch16_224": 224, "nest_tiny": 224, "tnt_s_patch16_224": 224, "mixnet_s": 96,
    "ghostnet_100": 96, "repvgg_a0": 96, "hrnet_w18_small": 96, "dla34": 96, "rexnet_100": 96, "swinv2_cr_tiny_224": 224,
    "efficientvit_b0": 96, "hardcorenas_a": 96, "botnet26t_256": 256, "lambda_resnet26t": 128, "mobileone_s0": 96, "resmlp_12_224": 224,
    "focalnet_tiny_srf": 224, "mvitv2_tiny": 224, "coatnet_nano_rw_224": 224, "starnet_s1": 96, "visformer_tiny": 224, "pit_ti_224": 224,
    "nf_regnet_b0": 96, "skresnet18": 96, "cs3darknet_s": 96, "twins_svt_small": 224,
    # Drawn of families that no rule was made for.
    "gernet_s": 96, "hgnet_tiny": 96, "nextvit_small": 224, "repghostnet_050": 96, "swiftformer_xs": 224, "vitamin_small_224": 224,
}
# transformers', each with what its configuration says otherwise.
SMALL = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=200)
TRANSFORMERS = {
    "BertForSequenceClassification": ("BertConfig", SMALL), "RobertaForMaskedLM": ("RobertaConfig", SMALL),
    "GPT2LMHeadModel": ("GPT2Config", dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, n_positions=64)),
    "LlamaForCausalLM": ("LlamaConfig", dict(SMALL, num_key_value_heads=2)), "T5Model": ("T5Config", dict(
        d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=200)),
    "T5EncoderModel": ("T5Config", dict(d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=200)),
    "ViTForImageClassification": ("ViTConfig", dict(SMALL, image_size=32, patch_size=8)),
    "SegformerForSemanticSegmentation": ("SegformerConfig", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64], decoder_hidden_size=64)),
    "DistilBertForSequenceClassification": ("DistilBertConfig", dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=200)),
    "AlbertForSequenceClassification": ("AlbertConfig", dict(SMALL, embedding_size=32)),
    # Drawn of families that no rule was made for.
    "CodeGenForCausalLM": ("CodeGenConfig", dict(n_embd=64, n_layer=2, n_head=4, vocab_size=200, n_positions=64, rotary_dim=8)),
    "ConvBertModel": ("ConvBertConfig", dict(SMALL, embedding_size=64)),
    "Phi3ForCausalLM": ("Phi3Config", dict(SMALL, pad_token_id=0, eos_token_id=1, bos_token_id=1, num_key_value_heads=2)),
    "StableLmForCausalLM": ("StableLmConfig", dict(SMALL, num_key_value_heads=2)),
    "XGLMForCausalLM": ("XGLMConfig", dict(d_model=64, ffn_dim=128, num_layers=2, attention_heads=4, vocab_size=200, max_position_embeddings=64)),
    "XLNetModel": ("XLNetConfig", dict(d_model=64, n_layer=2, n_head=4, d_inner=128, vocab_size=200)),
}
BATCH, WORDS = 4, 16


def made(name):
    """A network in training mode, and what it is called with."""
    import torch

    if ":" in name:
        import drawn_by_seed
        return drawn_by_seed.made(name)
    if name in TRANSFORMERS:
        import transformers
        config, settings = TRANSFORMERS[name]
        network = getattr(transformers, name)(getattr(transformers, config)(**settings))
        if "For" in name and ("Image" in name or "Semantic" in name):
            return network.train(), {"pixel_values": torch.rand(BATCH, 3, 32 if "ViT" in name else 64, 32 if "ViT" in name else 64)}
        ids = torch.randint(3, 200, [BATCH, WORDS])
        inputs = {"input_ids": ids, "decoder_input_ids": ids.clone()} if name == "T5Model" else {"input_ids": ids}
        # PyTorch's default exporter has no word for the caches of several models.
        for part in network.modules():
            if hasattr(part, "config"):
                part.config.use_cache = False
        return network.train(), inputs
    if name in TIMM:
        import timm
        pixels = TIMM[name]
        return timm.create_model(name).train(), torch.rand(2, 3, pixels, pixels)
    import drawn_by_hand
    make, shape = drawn_by_hand.NETS[name]
    return make().train(), torch.rand(shape)


def called(network, inputs):
    return network(**inputs) if isinstance(inputs, dict) else network(inputs)


def results(value, found):
    """Tensors of numbers of a result that have a batch."""
    import torch
    if isinstance(value, torch.Tensor):
        if value.dim() and value.is_floating_point():
            found.append(value)
    elif isinstance(value, dict):
        for key, part in value.items():
            if key not in ("past_key_values", "cache_params"):
                results(part, found)
    elif isinstance(value, (tuple, list)):
        for part in value:
            results(part, found)


def loss_of(network, inputs, classes):
    """What all results lose; the classes are made once and held, as what a data loader gives."""
    import torch
    found, total = [], None
    results(called(network, inputs), found)
    for place, result in enumerate(found):
        result = result.flatten(0, 1) if result.dim() == 3 else result
        result = result.unsqueeze(1) if result.dim() == 1 else result
        if place == len(classes):
            classes.append(torch.zeros([result.shape[0], *result.shape[2:]], dtype=torch.long))
        loss = torch.nn.functional.cross_entropy(result, classes[place])
        total = loss if total is None else total + loss
    return total


def counted(name, precision):
    import torch
    import torch_worker
    memory = torch_worker.ProcessMemory(None)

    def run():
        network, inputs = made(name)
        if precision == "bf16":
            network, inputs = network.bfloat16(), narrowed(inputs)
        optimizer, classes = torch.optim.AdamW(network.parameters()), []
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "amp_bf16"):
                loss = loss_of(network, inputs, classes)
            loss.backward()
            del loss
            optimizer.step()

    memory.count(run)
    return {"bytes": memory.allocated}


def narrowed(value):
    """The same with numbers of 16 bits instead of 32."""
    if isinstance(value, dict):
        return {key: narrowed(part) for key, part in value.items()}
    return value.bfloat16() if value.is_floating_point() else value


def by_module(name, precision):
    import perf4sight
    network, inputs = made(name)
    estimate = perf4sight.estimate_memory(network, inputs, target="cpu", optimizer="adamw", precision=precision)
    return {"bytes": estimate.tensors_bytes, "warnings": list(estimate.warnings)}


def by_file(name, precision, dynamo):
    import torch
    from perf4sight import _program
    network, inputs = made(name)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "network.onnx")
        if dynamo:
            samples = torch.export.Dim("batch", min=2, max=4096)
            shapes = {key: {0: samples} for key in inputs} if isinstance(inputs, dict) else ({0: samples},)
            arguments = dict(args=(), kwargs=inputs) if isinstance(inputs, dict) else dict(args=(inputs,))
            torch.onnx.export(network, f=path, dynamo=True, dynamic_shapes=shapes, optimize=True, verbose=False, **arguments)
        else:
            names = list(inputs) if isinstance(inputs, dict) else ["input"]
            given = (inputs,) if isinstance(inputs, dict) else (inputs,)
            torch.onnx.export(network, given, path, input_names=names, dynamic_axes={one: {0: "batch"} for one in names}, dynamo=False,
                              training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, opset_version=17)
        batch = next(iter(inputs.values())).shape[0] if isinstance(inputs, dict) else inputs.shape[0]
        told = _program.ask("predict", path, "--target=cpu", "--bs=%d" % batch, "--optimizer=adamw", "--zero-grad=free", "--precision=" + precision)
    found = told["networks"][0]["predictions"][0]
    between = [found.get(end, found["tensors_bytes"]) for end in ("tensors_low_bytes", "tensors_high_bytes")]
    return {"bytes": found["tensors_bytes"], "between": between, "warnings": told["warnings"]}


def answer(name, way, precision):
    """What one way says, or the problem that it ended with."""
    try:
        return {"counted": counted, "module": by_module}[way](name, precision) if way in ("counted", "module") else by_file(name, precision, way == "default")
    except Exception as problem:  # a refusal is one of the results
        return {"problem": "%s: %s" % (type(problem).__name__, str(problem)[:400])}


def asked(name, way, precision, threads):
    """The answer of a process of its own, which is forked: what takes long to import is there."""
    reads, writes = os.pipe()
    child = os.fork()
    if not child:
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        import torch
        torch.set_num_threads(threads)
        with os.fdopen(writes, "w") as answers:
            answers.write(json.dumps(answer(name, way, precision)))
        os._exit(0)
    os.close(writes)
    timer = threading.Timer(LIMIT_S, os.kill, (child, signal.SIGKILL))
    timer.start()
    with os.fdopen(reads) as answers:
        found = answers.read()
    timer.cancel()
    os.waitpid(child, 0)
    return json.loads(found) if found else {"problem": "ended without a word, or not within %d s" % LIMIT_S}


def off(row, way):
    return row[way]["bytes"] / row["counted"]["bytes"] - 1


def cell(row, way):
    if "bytes" not in row[way]:
        return "refused"
    between = [100 * (end / row["counted"]["bytes"] - 1) for end in row[way].get("between", [])]
    ends = " (%+.2f to %+.2f)" % tuple(between) if between else ""
    return "%+.2f %%%s%s" % (100 * off(row, way), "*" if row[way]["warnings"] else "", ends)


def is_held(row, way):
    """Whether the interval holds what was counted, to 0.5 %."""
    least, most = row[way].get("between", [row[way]["bytes"]] * 2)
    return 0.995 * least <= row["counted"]["bytes"] <= 1.005 * most


def summary(rows):
    for way in WAYS:
        errors = sorted(abs(off(row, way)) for row in rows if "bytes" in row[way])
        silent = [row["name"] for row in rows if "bytes" in row[way] and abs(off(row, way)) > 0.05 and not row[way]["warnings"]]
        if errors:
            held = sum(is_held(row, way) for row in rows if "bytes" in row[way])
            print("%s: %d of %d answered; off by %.3f %% in the median, %.2f %% on average, %.2f %% at worst; %d intervals hold; more than 5 %% "
                  "without a warning: %s" % (way, len(errors), len(rows), 100 * statistics.median(errors), 100 * statistics.mean(errors),
                                             100 * errors[-1], held, ", ".join(silent) or "none"))


def by_seed(seed, held_back):
    """The networks that a seed draws: two thirds to find rules by, or the third that is held back."""
    import drawn_by_seed
    return [name for number, name in enumerate(drawn_by_seed.names(seed)) if (number % 3 == 2) == held_back]


def main():
    import drawn_by_hand
    parser = argparse.ArgumentParser(description="networks drawn anew")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", help="a file that keeps what was found")
    parser.add_argument("--way", action="append", choices=WAYS)
    parser.add_argument("--precision", choices=("fp32", "amp_bf16", "bf16"), default="fp32")
    parser.add_argument("--threads", type=int, default=2, help="threads that compute, each of which borrows memory of its own")
    parser.add_argument("--seed", type=int, help="networks that this seed draws (drawn_by_seed.py), but for every third")
    parser.add_argument("--held-back", action="store_true", help="every third of them instead")
    asks = parser.parse_args()
    warnings.filterwarnings("ignore")
    for module in ("torch", "perf4sight", "onnxscript", "timm", "transformers"):
        importlib.import_module(module)
    drawn = by_seed(asks.seed, asks.held_back) if asks.seed is not None else []
    known = [json.loads(line) for line in open(asks.rows)] if asks.rows and os.path.exists(asks.rows) else []
    rows = []
    print("| network | counted | %s |\n|%s" % (" | ".join(WAYS), "---|" * (2 + len(WAYS))))
    for name in [*asks.names, *drawn] or [*drawn_by_hand.NETS, *TRANSFORMERS, *TIMM]:
        row = next((row for row in known if row["name"] == name), None)
        if row is None:
            row = {"name": name, **{way: {"problem": "not asked"} for way in WAYS}}
            row.update((way, asked(name, way, asks.precision, asks.threads)) for way in ["counted", *(asks.way or WAYS)])
            if asks.rows:
                with open(asks.rows, "a") as file:
                    file.write(json.dumps(row) + "\n")
        if "bytes" in row["counted"]:
            rows.append(row)
            print("| %s | %.1f MiB | %s |" % (name, row["counted"]["bytes"] / 2 ** 20, " | ".join(cell(row, way) for way in WAYS)), flush=True)
        else:
            print("%s was not counted: %s" % (name, row["counted"]["problem"]), flush=True)
    summary(rows)


if __name__ == "__main__":
    main()

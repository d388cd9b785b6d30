#!/usr/bin/env python3
"""Makes the exports in tests/suite/exports, which are read in every run of the tests: networks whose files are hard to read, few layers each.

    python scripts/export_samples.py tests/suite/exports

Beside the files counts.csv says what PyTorch counts of each. Traces of the stack, which nobody reads, are left out of the files.
Needs what export_networks.py needs, and transformers. Names behind the folder are the only ones to be made.
"""
import csv
import functools
import os
import sys
import warnings

import onnx
import timm
import torch
from torchvision.models import swin_transformer

import export_networks
import export_operations
import token_networks

BUILD = export_networks.build
SMALL = dict(num_classes=10)
FEW = dict(depths=(1, 1, 1, 1), **SMALL)
SWIN_V2 = functools.partial(
    swin_transformer.SwinTransformer, patch_size=[4, 4], embed_dim=24, depths=[1, 2], num_heads=[2, 4], window_size=[8, 8],
    block=swin_transformer.SwinTransformerBlockV2, downsample_layer=swin_transformer.PatchMergingV2, **SMALL)
# A network and the height of its images, or its inputs.
SAMPLES = {
    "coat": (lambda: timm.create_model("coat_tiny", img_size=64, serial_depths=(1, 1, 1, 1), parallel_depth=1, **SMALL), 64),
    "convit": (lambda: timm.create_model("convit_tiny", img_size=64, depth=2, local_up_to_layer=1, **SMALL), 64),
    "convnextv2": (lambda: timm.create_model("convnextv2_atto", dims=(8, 16, 24, 32), **FEW), 64),
    "edgenext": (lambda: timm.create_model("edgenext_xx_small", dims=(8, 16, 24, 32), heads=(2, 2, 2, 2), **FEW), 64),
    "eva02": (lambda: timm.create_model("eva02_tiny_patch14_224", depth=1, **SMALL), 224),
    "gn": (lambda: timm.create_model("resnet50_gn", layers=(1, 1, 1, 1), **SMALL), 64),
    "levit": (lambda: timm.create_model("levit_128s", img_size=64, depth=(1, 1, 1), **SMALL), 64),
    "nfnet": (lambda: timm.create_model("nf_resnet26", **SMALL), 64),
    "segmentation": (lambda: BUILD("aux.deeplabv3_mobilenet_v3_large")[0], 64),
    "selective": (lambda: timm.create_model("skresnet18", layers=(1, 1, 1, 1), **SMALL), 64),
    "swin_v2": (SWIN_V2, 64),
    "bert": token_networks.NETWORKS["bert"],
    "captioned": token_networks.NETWORKS["captioned"],
    "decoder": token_networks.NETWORKS["decoder"],
    "encoder": token_networks.NETWORKS["encoder"],
    "gpt2": token_networks.NETWORKS["gpt2_mask"],
    "unet": (lambda: export_networks.UNet((8, 16, 32)), 64),
    "xcit": (lambda: timm.create_model("xcit_nano_12_p8_224", depth=2, **SMALL), 64),
}

# Operations of export_operations.py that a reader may miss, by the exporter that writes them harder.
OPERATIONS = {
    "affine_grid": "legacy", "arg_max": "legacy", "average_pool_3d": "legacy", "conv_3d": "default", "cum_sum": "default",
    "deformable": "default", "fold": "default", "gather_by_tuples": "legacy", "grid_sample": "legacy", "gru": "default",
    "local_response_norm": "default", "log_sum_exp": "default", "lp_pool": "legacy", "lstm": "legacy", "max_unpool": "default",
    "prelu": "default", "top_k_places": "default", "weight_norm": "default", "windows": "default",
}


def stripped(path):
    model = onnx.load(path, load_external_data=False)
    for node in model.graph.node:
        kept = [note for note in node.metadata_props if note.key.endswith(("fx_node", "rule_name"))]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and len(tensor.raw_data) > 4096:
            tensor.ClearField("raw_data")
    onnx.save(model, path)


def main(folder, *names):
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    os.makedirs(folder, exist_ok=True)
    networks = [(name, functools.partial(built, *SAMPLES[name]), export_networks.WAYS) for name in sorted(SAMPLES)]
    operations = [(name, export_operations.OPERATIONS[name], [way]) for name, way in sorted(OPERATIONS.items())]
    for place, chosen in ((folder, networks), (os.path.join(folder, "operations"), operations)):
        os.makedirs(place, exist_ok=True)
        sample(place, [sample for sample in chosen if not names or sample[0] in names], whole=not names)


def built(build, size):
    return build(), size if isinstance(size, dict) else export_networks.images(size)


def sample(folder, chosen, whole):
    rows = []
    for name, build, ways in chosen:
        made = build()
        export_networks.build = lambda _, made=made: made
        counts = export_networks.limited(export_networks.counted, name, folder)
        rows.append([name, counts["parameters"], counts["macs"]])
        for way in ways:
            said = export_networks.limited(export_networks.exported, name, folder, way)
            if not isinstance(said, dict):
                print(name, way, said, flush=True)  # not every exporter can do every network
                continue
            stripped(os.path.join(folder, "%s.%s.onnx" % (name, way)))
        print(rows[-1], flush=True)
    if not whole:
        return
    with open(os.path.join(folder, "counts.csv"), "w", newline="") as file:
        file.write("# PyTorch %s, timm %s, by scripts/export_samples.py: elements of parameters, half of what FlopCounterMode counts of one image\n"
                   % (torch.__version__.split("+")[0], timm.__version__))
        csv.writer(file, lineterminator="\n").writerows([["network", "parameters", "macs"]] + rows)


if __name__ == "__main__":
    main(*sys.argv[1:])

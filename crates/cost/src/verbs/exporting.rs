//! How to export a network of a name to ONNX, by the library whose names are like it.

/// A library of networks, told by how its names begin; the first that fits counts.
struct NetworkLibrary {
    begins: &'static [&'static str],
    /// Names that only begin so belong to another library.
    unless: &'static [&'static str],
    /// Python that makes the model called `NAME`.
    model: &'static str,
    /// The inputs that it is traced with.
    inputs: &'static str,
}

/// As of torchvision 0.26, timm 1.0.31 and transformers 5.24; lraspp_mobilenet_v3_large, r3d_18, BERT and GPT-2 were exported so.
const LIBRARIES: [NetworkLibrary; 5] = [
    NetworkLibrary {
        begins: &["deeplabv3_", "fcn_resnet", "lraspp_"],
        unless: &[],
        model: "torchvision.models.segmentation.NAME(weights_backbone=None)",
        inputs: "torch.rand(2, 3, 224, 224)",
    },
    NetworkLibrary {
        begins: &["r3d_", "mc3_", "r2plus1d_"],
        unless: &[],
        model: "torchvision.models.video.NAME()",
        inputs: "torch.rand(2, 3, 16, 112, 112)",
    },
    NetworkLibrary {
        begins: &["bert-", "distilbert-", "roberta-", "albert-", "electra-", "gpt2", "distilgpt2", "xlm-roberta-"],
        unless: &[],
        model: "transformers.AutoModel.from_pretrained(\"NAME\", use_cache=False)",
        inputs: "torch.ones(2, 16, dtype=torch.long)",
    },
    NetworkLibrary {
        begins: &[
            "resnet",
            "resnext",
            "wide_resnet",
            "vgg1",
            "densenet1",
            "densenet2",
            "squeezenet1_",
            "mobilenet_v2",
            "mobilenet_v3_",
            "mnasnet",
            "efficientnet_b",
            "efficientnet_v2_",
            "convnext_",
            "regnet_x_",
            "regnet_y_",
            "shufflenet_v2_",
            "vit_b_",
            "vit_l_",
            "vit_h_",
            "swin_t",
            "swin_s",
            "swin_b",
            "swin_v2_",
            "maxvit_t",
            "inception_v3",
            "googlenet",
            "alexnet",
        ],
        unless: TIMM,
        model: "torchvision.models.NAME()",
        inputs: "torch.rand(2, 3, 224, 224)",
    },
    NetworkLibrary {
        begins: &[
            "vit_",
            "tf_",
            "deit",
            "beit",
            "eva",
            "cait",
            "xcit",
            "levit",
            "poolformer",
            "metaformer",
            "caformer",
            "convformer",
            "convnext",
            "mobilevit",
            "mobilenetv3_",
            "mobilenetv4_",
            "efficientformer",
            "fastvit",
            "hiera",
            "maxvit",
            "coat",
            "crossvit",
            "davit",
            "edgenext",
            "ghostnet",
            "hrnet",
            "mixer_",
            "nfnet",
            "eca_",
            "regnet",
            "repvgg",
            "res2net",
            "resnest",
            "resnet",
            "resnext",
            "swin",
            "twins",
            "volo",
            "efficientnet",
            "inception",
            "densenet",
            "visformer",
            "pvt",
            "gmlp",
            "resmlp",
            "seresnet",
            "darknet",
            "cspdarknet",
            "dla",
        ],
        unless: &[],
        model: "timm.create_model(\"NAME\")",
        inputs: "torch.rand(2, *model.default_cfg[\"input_size\"])",
    },
];

/// Detectors of torchvision: how many boxes they compute with depends on the image, so that no file holds one as a network.
const DETECTORS: [&str; 5] = ["fasterrcnn_", "retinanet_", "fcos_", "ssd300_", "ssdlite320_"];

/// Those that `detection` does not train, for they learn more than boxes.
const OTHER_DETECTORS: [&str; 2] = ["maskrcnn_", "keypointrcnn_"];

/// Parts of names that timm alone uses.
const TIMM: &[&str] = &["patch", "window", "_nano", "_atto", "_femto", "_pico", "_xx", "convnext_zepto", "."];

/// How to get answers about a network of that name.
pub(super) fn advice(name: &str) -> String {
    let lower = name.to_ascii_lowercase();
    if DETECTORS.iter().any(|start| lower.starts_with(start)) {
        return format!(
            "perf4sight detection --network {name} measures what training this detector of torchvision takes"
        );
    }
    if OTHER_DETECTORS.iter().any(|start| lower.starts_with(start)) {
        return "perf4sight detection measures the training of detectors that learn boxes alone; the nearest is --network fasterrcnn_resnet50_fpn"
            .to_owned();
    }
    format!(
        "name a network of your own by its file, with path and ending: nets/mine.onnx; to make one, {}",
        export(name, &lower)
    )
}

fn export(name: &str, lower: &str) -> String {
    // https://docs.ultralytics.com/modes/export/
    if lower.starts_with("yolo") {
        return format!("yolo export model={name}.pt format=onnx, of ultralytics");
    }
    match find_library(lower) {
        Some(NetworkLibrary { model, inputs, .. }) => {
            let model = model.replace("NAME", lower);
            format!("in Python: model = {model}; torch.onnx.export(model, {inputs}, \"{name}.onnx\")")
        }
        None => "in Python: torch.onnx.export(model, example_input, \"net.onnx\")".to_owned(),
    }
}

fn find_library(name: &str) -> Option<&'static NetworkLibrary> {
    let fits = |library: &&NetworkLibrary| {
        library.begins.iter().any(|start| name.starts_with(start))
            && !library.unless.iter().any(|part| name.contains(part))
    };
    LIBRARIES.iter().find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the documentation of the libraries lists these names.
    #[test]
    fn names_are_made_by_their_own_library() {
        for (name, made) in [
            ("fasterrcnn_resnet50_fpn", "perf4sight detection --network fasterrcnn_resnet50_fpn"),
            ("keypointrcnn_resnet50_fpn", "--network fasterrcnn_resnet50_fpn"),
            ("deeplabv3_resnet50", "torchvision.models.segmentation.deeplabv3_resnet50("),
            ("r3d_18", "torchvision.models.video.r3d_18("),
            ("efficientnet_v2_s", "torchvision.models.efficientnet_v2_s("),
            ("vgg11_bn", "torchvision.models.vgg11_bn("),
            ("squeezenet1_1", "torchvision.models.squeezenet1_1("),
            ("vit_base_patch16_224", "timm.create_model(\"vit_base_patch16_224\")"),
            ("convnext_atto", "timm.create_model(\"convnext_atto\")"),
            ("resnet50.a1_in1k", "timm.create_model(\"resnet50.a1_in1k\")"),
            ("bert-base-uncased", "transformers.AutoModel.from_pretrained(\"bert-base-uncased\""),
            ("gpt2", "transformers.AutoModel.from_pretrained(\"gpt2\""),
            ("yolov8n", "yolo export model=yolov8n.pt"),
        ] {
            assert!(advice(name).contains(made), "{name}: {}", advice(name));
        }
        for name in ["unet", "mynet", "mobilenet"] {
            assert!(!advice(name).contains(name), "{name}: {}", advice(name));
        }
    }
}

"""Networks of timm and transformers whose kinds, sizes and batches a seed draws: `drawn.py --seed N`."""
import random

# Small enough for three steps on a processor.
MOST_PARAMETERS = 30e6
WORDS = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=300)
NO_MASKS = dict(mask_time_prob=0.0, mask_feature_prob=0.0, layerdrop=0.0)
SOUND = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, conv_dim=(32, 32, 48), conv_stride=(5, 2, 2),
             conv_kernel=(10, 3, 2), num_feat_extract_layers=3, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, vocab_size=32, **NO_MASKS)
PATCHES = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, patch_size=16)
STAGES = dict(depths=[1, 1, 2, 1], hidden_sizes=[16, 32, 48, 64])
# Each class of transformers: the class of its configuration, settings, and what it reads.
TRANSFORMERS = {
    "BertModel": ("BertConfig", WORDS, "ids"), "BertForMaskedLM": ("BertConfig", WORDS, "ids"), "BertForTokenClassification": ("BertConfig", WORDS, "ids"),
    "RobertaModel": ("RobertaConfig", WORDS, "ids"), "RobertaForSequenceClassification": ("RobertaConfig", WORDS, "ids"),
    "ElectraForPreTraining": ("ElectraConfig", dict(WORDS, embedding_size=32), "ids"), "AlbertModel": ("AlbertConfig", dict(WORDS, embedding_size=32), "ids"),
    "DebertaV2Model": ("DebertaV2Config", dict(WORDS, relative_attention=True, pos_att_type=["p2c", "c2p"]), "ids"),
    "DebertaModel": ("DebertaConfig", dict(WORDS, relative_attention=True, pos_att_type=["p2c", "c2p"]), "ids"),
    "DistilBertForMaskedLM": ("DistilBertConfig", dict(dim=64, n_layers=2, n_heads=4, hidden_dim=128, vocab_size=300), "ids"),
    "MPNetModel": ("MPNetConfig", WORDS, "ids"), "RoFormerModel": ("RoFormerConfig", WORDS, "ids"), "XLMRobertaModel": ("XLMRobertaConfig", WORDS, "ids"),
    "GPT2Model": ("GPT2Config", dict(n_embd=64, n_layer=2, n_head=4, vocab_size=300, n_positions=128), "ids"),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", WORDS, "ids"), "OPTForCausalLM": ("OPTConfig", dict(WORDS, ffn_dim=128, word_embed_proj_dim=64), "ids"),
    "LlamaModel": ("LlamaConfig", dict(WORDS, num_key_value_heads=2), "ids"), "MistralForCausalLM": ("MistralConfig", dict(WORDS, num_key_value_heads=2), "ids"),
    "Qwen2ForCausalLM": ("Qwen2Config", dict(WORDS, num_key_value_heads=2), "ids"), "PhiForCausalLM": ("PhiConfig", WORDS, "ids"),
    "GemmaForCausalLM": ("GemmaConfig", dict(WORDS, num_key_value_heads=2, head_dim=16), "ids"), "BloomForCausalLM": ("BloomConfig", dict(
        hidden_size=64, n_layer=2, n_head=4, vocab_size=300), "ids"), "FalconModel": ("FalconConfig", WORDS, "ids"),
    "MambaForCausalLM": ("MambaConfig", dict(hidden_size=64, num_hidden_layers=2, vocab_size=300, state_size=8), "ids"),
    "FNetModel": ("FNetConfig", WORDS, "ids"), "SqueezeBertModel": ("SqueezeBertConfig", dict(WORDS, embedding_size=64), "ids"),
    "T5ForConditionalGeneration": ("T5Config", dict(d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=300), "pair"),
    "MT5Model": ("MT5Config", dict(d_model=64, d_ff=128, num_layers=2, num_heads=4, d_kv=16, vocab_size=300), "pair"),
    "BartModel": ("BartConfig", dict(d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                                     encoder_ffn_dim=128, decoder_ffn_dim=128, vocab_size=300, max_position_embeddings=128), "pair"),
    "WhisperForConditionalGeneration": ("WhisperConfig", dict(
        d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128,
        vocab_size=300, max_source_positions=100, max_target_positions=64, num_mel_bins=40, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1), "mel"),
    "Wav2Vec2Model": ("Wav2Vec2Config", SOUND, "sound"), "Wav2Vec2ForCTC": ("Wav2Vec2Config", SOUND, "sound"), "HubertModel": ("HubertConfig", SOUND, "sound"),
    "ViTModel": ("ViTConfig", PATCHES, "pixels"), "DeiTForImageClassification": ("DeiTConfig", PATCHES, "pixels"), "BeitForImageClassification": (
        "BeitConfig", PATCHES, "pixels"), "ViTMAEModel": ("ViTMAEConfig", PATCHES, "pixels"), "Dinov2Model": ("Dinov2Config", PATCHES, "pixels"),
    "SwinForImageClassification": ("SwinConfig", dict(image_size=64, embed_dim=32, depths=[1, 2], num_heads=[2, 4], window_size=4), "pixels"),
    "Swinv2Model": ("Swinv2Config", dict(image_size=64, embed_dim=32, depths=[1, 2], num_heads=[2, 4], window_size=4), "pixels"),
    "ConvNextForImageClassification": ("ConvNextConfig", STAGES, "pixels"), "ConvNextV2Model": ("ConvNextV2Config", STAGES, "pixels"),
    "ResNetForImageClassification": ("ResNetConfig", dict(STAGES, embedding_size=16), "pixels"), "RegNetModel": ("RegNetConfig", dict(
        STAGES, embedding_size=16, groups_width=8), "pixels"),
    "MobileViTForImageClassification": ("MobileViTConfig", dict(image_size=64, hidden_sizes=[48, 64, 80], neck_hidden_sizes=[16, 16, 32, 48, 64, 80, 160]),
                                        "pixels"),
    "MobileViTV2Model": ("MobileViTV2Config", dict(image_size=64, width_multiplier=0.5), "pixels"),
    "SegformerForImageClassification": ("SegformerConfig", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64]), "pixels"),
    "SegformerForSemanticSegmentation": ("SegformerConfig", dict(depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 40, 64], decoder_hidden_size=48), "pixels"),
    "MobileNetV2Model": ("MobileNetV2Config", dict(image_size=64, depth_multiplier=0.5), "pixels"), "PoolFormerModel": ("PoolFormerConfig", STAGES, "pixels"),
    "PvtModel": ("PvtConfig", dict(image_size=64, depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 48, 64], num_attention_heads=[1, 2, 3, 4]), "pixels"), "LevitModel": ("LevitConfig", dict(
        image_size=64, hidden_sizes=[32, 48, 64], depths=[1, 1, 1], key_dim=[8, 8, 8], num_attention_heads=[2, 3, 4]), "pixels"),
    "CvtModel": ("CvtConfig", dict(embed_dim=[16, 32, 64], num_heads=[1, 2, 4], depth=[1, 1, 1]), "pixels"),
    "DetrForObjectDetection": ("DetrConfig", dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                                                  encoder_ffn_dim=96, decoder_ffn_dim=96, num_queries=12), "pixels"),
    "CLIPModel": ("CLIPConfig", dict(projection_dim=32), "both"),
}


def names(seed, of_timm=20, of_transformers=22):
    """What a seed draws; every third of them is to be held back."""
    import timm
    chance = random.Random(seed)
    families = {}
    for name in timm.list_models():
        families.setdefault(name.split("_")[0].rstrip("0123456789"), []).append(name)
    chosen = chance.sample(sorted(TRANSFORMERS), of_transformers)
    for family in chance.sample(sorted(families), len(families)):
        few = [name for name in chance.sample(families[family], len(families[family]))[:4] if is_small(name)]
        if few and of_timm:
            of_timm -= 1
            chosen.append(few[0])
    chance.shuffle(chosen)
    return ["%d:%s" % (seed, name) for name in chosen]


def is_small(name):
    import timm
    import torch
    try:
        with torch.device("meta"):
            return sum(weight.numel() for weight in timm.create_model(name).parameters()) < MOST_PARAMETERS
    except Exception:  # what is no model without weights
        return False


def made(drawn):
    """A network in training mode, and what it is called with, of a name as `7:BertModel`."""
    seed, name = drawn.split(":")
    chance = random.Random(drawn)
    batch = chance.choice([2, 3, 4])
    return of_transformers(name, chance, batch) if name in TRANSFORMERS else of_timm(name, chance, batch)


def of_timm(name, chance, batch):
    import timm
    import torch
    network = timm.create_model(name)
    given = network.default_cfg
    channels, height, width = given["input_size"]
    if not given.get("fixed_input_size") and height >= 160:
        height = width = chance.choice([96, 128])
        try:
            with torch.no_grad():
                network.train()(torch.rand(2, channels, height, width))
        except Exception:  # windows and tables of one size of images
            channels, height, width = given["input_size"]
    return network.train(), torch.rand(batch, channels, height, width)


def of_transformers(name, chance, batch):
    import torch
    import transformers
    config, settings, reads = TRANSFORMERS[name]
    settings = dict(settings)
    if "hidden_size" in settings and "image_size" not in settings:
        settings["num_hidden_layers"] = chance.choice([1, 2, 3])
    if name == "CLIPModel":
        settings.update(text_config=dict(WORDS, projection_dim=32, eos_token_id=2), vision_config=dict(PATCHES, projection_dim=32))
    if name == "DetrForObjectDetection":
        backbone = transformers.ResNetConfig(**STAGES, embedding_size=16, out_features=["stage4"])
        settings.update(use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone)
    network = getattr(transformers, name)(getattr(transformers, config)(**settings))
    for part in network.modules():
        if hasattr(part, "config"):
            part.config.use_cache = False
    words = chance.choice([12, 16, 24, 40])
    ids = torch.randint(3, 200, [batch, words])
    pixels = torch.rand(batch, 3, 64, 64)
    inputs = {
        "ids": lambda: {"input_ids": ids}, "pair": lambda: {"input_ids": ids, "decoder_input_ids": ids[:, :words // 2].clone()},
        "mel": lambda: {"input_features": torch.rand(batch, 40, 200), "decoder_input_ids": ids}, "sound": lambda: {"input_values": torch.rand(batch, 4000)},
        "pixels": lambda: {"pixel_values": pixels}, "both": lambda: {"input_ids": ids, "pixel_values": pixels},
    }[reads]()
    return network.train(), inputs

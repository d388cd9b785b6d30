//! The end of the program's help.

pub(super) const AFTER_HELP: &str = "\
Examples:
  perf4sight config.ini                                    run every section in order
  perf4sight --config-file config.ini --check              show what would run and how long it takes
  perf4sight --config-file config.ini --only profile --set profile.bs=[1,8]
  perf4sight fingerprints                                  list the stored fingerprints
  perf4sight networks --export models/imagenet             list the known networks, write seven of them
  perf4sight profile --check-noise                         how far measurements here lie apart, in a minute
  perf4sight predict resnet18@50 --fingerprint fingerprinting/cpu/imagenet --bs 1,8,32
  perf4sight predict mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --bs 16 --mem-limit 8GiB --require-fit
  perf4sight predict nets/ --fingerprint fingerprinting/cpu/imagenet --bs 1,8 --csv > predictions.csv
  perf4sight advise mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --batch 16 --optimizer adamw --mem-limit 8GiB
  perf4sight calibrate mynetwork.onnx --fingerprint fingerprinting/cpu/imagenet --measure --save fingerprinting/mine
  perf4sight prune mynetwork.onnx --level 50 --out mynetwork_50.onnx
  perf4sight inspect mynetwork.onnx --bs 8 --stage training
  perf4sight inspect mynetwork.onnx --bs 16 --memory --html memory.html
  perf4sight record -- python3 train.py --epochs 1
  perf4sight breakdown recording/
  perf4sight replay recording/
  perf4sight analyze --option replay --comm_backend NCCL --nccl_algo RING --pretty --path traces/
  perf4sight sensitivity -b 256 --data /data/imagenet -- python3 train.py
  perf4sight detection --data pets --batch-size 2,4 --num-workers 0,2
  perf4sight cost-model train --plans measured.csv --out model.json
  perf4sight optimize traces/
  perf4sight optimize --plans candidates.csv --model model.json --memory-budget 40GiB
  perf4sight completions bash > ~/.local/share/bash-completion/completions/perf4sight

Exit codes:
  0    everything asked for was done
  2    the command line is wrong, or a level in it such as resnet18@100
  3    the configuration is wrong, or a network or device has an unknown name; nothing was run
  4    an input file (network, CSV, fingerprint) cannot be used, or a level cannot be reached
  5    the device cannot do what was asked, or measured nothing of it
  6    reading or writing failed, as where a file is missing
  7    with --require-fit: a step may not fit; with optimize: nothing fits into --memory-budget
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP; the same command does the rest";

#!/usr/bin/env bash
# Compares lockstep with other libraries in one interleaved run: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: benchmarks/compare.sh step|models|layers|inference|all_reduce [options]

step     Whole training steps of three models (benchmarks/models.hpp) on 1 and 2 threads: lockstep, lockstep built with -march=native,
         oneDNN's primitives, PyTorch and TensorFlow, one after the other, several rounds. Prints a Markdown table with a row for each target.
models   The same for deeper models (benchmarks/deep_models.hpp), beside PyTorch and TensorFlow: two GPTs, one of them also beside
         llm.c, ResNet-20, a bidirectional LSTM; and on two processes beside PyTorch's DistributedDataParallel, with the memory that
         a process takes.
inference
         One prediction, a sample a call on one thread, beside onnxruntime and PyTorch. Real time, in microseconds.
layers   Each layer and pass on one thread, lockstep beside oneDNN and the measured peak of the floating-point units.
all_reduce
         Sums of float32 between processes and threads of this machine: lockstep, gloo, OpenMPI and the raw limits; and the step of the
         tutorial's CNN on two processes beside PyTorch's DistributedDataParallel. Real time, in microseconds.

Times are milliseconds: median (minimum to maximum) over the repetitions of all rounds; with one thread of processor time, which
other programs disturb little, with two of real time. A peer with several variants counts with its best.

  --quick          one round
  --torch-compile  also PyTorch's torch.compile (a minute or two more, the first time)
  --rounds N       default: 3
  --congestion-control NAME
                   with all_reduce: run everything under this one, in network namespaces of their own, which leave the system's setting
                   alone; one of those in /proc/sys/net/ipv4/tcp_allowed_congestion_control
  --patience N     before each program on 2 cores wait up to N seconds for the machine to be idle (default: 20)
  --against FILE   a table that this has printed before: its figures beside these, by row and instruction set
  --without PEER   onednn, torch, tensorflow, native, gloo, openmpi, llmc or onnxruntime: leave it out
  --no-setup       do not install anything
  --help           this text

Environment: CXX (default: g++), and CC (default: gcc) for llm.c; LOCKSTEP_TORCH_PYTHON and LOCKSTEP_TENSORFLOW_PYTHON, Pythons that
have these, and LOCKSTEP_ONNXRUNTIME_PYTHON; LOCKSTEP_LLMC, a checkout of llm.c; LOCKSTEP_MAX_ISA for lockstep.

Exit code: 0 every row holds, 1 one falls short, 2 wrong usage or build, 3 none falls short but some could not be measured,
because a peer is missing or, on two cores, because other programs ran at the same time.
TEXT
}

fail() {
  echo "compare.sh: $*" >&2
  exit 2
}
say() { echo "compare.sh: $*" >&2; }

command='' rounds=3 patience=20 setup=1 variants=eager,channels_last congestion_control='' against=''
declare -A with=([onednn]=1 [torch]=1 [tensorflow]=1 [native]=1 [gloo]=1 [openmpi]=1 [llmc]=1 [onnxruntime]=1)
while (($#)); do
  case $1 in
    step | models | layers | inference | all_reduce) command=$1 ;;
    --quick) rounds=1 ;;
    --torch-compile) variants+=,compile ;;
    --no-setup) setup=0 ;;
    --rounds | --patience | --without | --congestion-control | --against)
      (($# > 1)) || fail "$1 needs a value"
      case $1 in
        --without)
          [[ -n ${with[$2]:-} ]] || fail "--without: unknown: $2 (${!with[*]})"
          with[$2]=0
          ;;
        --congestion-control) congestion_control=$2 ;;
        --against)
          against=$2
          [[ $against == /* ]] || against=$OLDPWD/$against
          [[ -r $against ]] || fail "--against: cannot read $against"
          ;;
        *)
          [[ $2 =~ ^[0-9]+$ ]] || fail "$1 needs a number, not $2"
          declare "${1#--}=$2"
          ;;
      esac
      shift
      ;;
    --help | -h) usage && exit ;;
    *) fail "unknown argument: $1 (see --help)" ;;
  esac
  shift
done
[[ -n $command ]] || fail 'say what to compare: step, models, layers, inference or all_reduce (see --help)'
((rounds > 0)) || fail '--rounds needs at least 1'
[[ $command == all_reduce || -z $congestion_control ]] || fail '--congestion-control goes with all_reduce'
min_time=0.1
[[ $command == inference ]] || with[onnxruntime]=0
case $command in
  step) with[gloo]=0 with[openmpi]=0 with[llmc]=0 ;;
  models) with[gloo]=0 with[openmpi]=0 with[onednn]=0 with[native]=0 ;;
  inference) with[onednn]=0 with[tensorflow]=0 with[native]=0 with[gloo]=0 with[openmpi]=0 with[llmc]=0 ;;
  layers) with[torch]=0 with[tensorflow]=0 with[native]=0 with[gloo]=0 with[openmpi]=0 with[llmc]=0 min_time=0.03 ;;
  all_reduce) with[onednn]=0 with[tensorflow]=0 with[native]=0 with[llmc]=0 ;;
esac

# --- build ----------------------------------------------------------------------------------------

if ((setup)); then
  for peer in onednn torch tensorflow gloo openmpi llmc onnxruntime; do
    ((with[$peer])) || continue
    benchmarks/peers/setup.sh "$peer" || say "goes on without what is missing for $peer"
  done
fi
torch_python=${LOCKSTEP_TORCH_PYTHON:-build/peers/torch/bin/python}
tensorflow_python=${LOCKSTEP_TENSORFLOW_PYTHON:-build/peers/tensorflow/bin/python}
onnxruntime_python=${LOCKSTEP_ONNXRUNTIME_PYTHON:-build/peers/onnxruntime/bin/python}
export TORCHINDUCTOR_CACHE_DIR=$PWD/build/peers/inductor

if command -v ninja >/dev/null; then export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}; fi
offers() { cmake --build "$1" --target help | grep -q "\b$2\b"; } # FOLDER TARGET
build() { # FOLDER FLAGS TARGET...
  local folder=$1 flags=$2
  shift 2
  cmake -S . -B "$folder" -D CMAKE_BUILD_TYPE=Release -D CMAKE_CXX_COMPILER="${CXX:-g++}" -D CMAKE_CXX_FLAGS="$flags" \
    -D CMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' -D LOCKSTEP_BUILD_BENCHMARKS=ON -D LOCKSTEP_BUILD_TESTS=OFF \
    -D LOCKSTEP_BUILD_EXAMPLES=OFF -D LOCKSTEP_BUILD_COMPILED=OFF >/dev/null || fail "cannot configure $folder"
  offers "$folder" "$1" || fail "cannot build $1: Google Benchmark is not installed (Debian: libbenchmark-dev)"
  cmake --build "$folder" --target "$@" >&2 || fail "cannot build $*"
}
own=build/compare native=build/compare-native
results=$own/$command.csv # series,name,value and perhaps ,disturbed

# Idle and all jiffies of the machine so far.
jiffies() { awk '/^cpu / { for (i = 2; i <= 9; ++i) all += $i; print $5 + $6, all }' /proc/stat; }
wait_until_idle() {
  local waited before after
  for ((waited = 0; waited < patience; ++waited)); do
    before=$(jiffies)
    sleep 1
    after=$(jiffies)
    awk -v a="$before" -v b="$after" 'BEGIN { split(a, x); split(b, y); exit !((y[1] - x[1]) > 0.9 * (y[2] - x[2])) }' && return
  done
  return 0
}
# Runs a command that adds to $results, on an idle machine, if it gets idle. When other programs
# took more than a tenth of the machine meanwhile, marks what it has added: two threads that share
# their cores with others, or spin, tell nothing.
disturbed=0
undisturbed() { # COMMAND...
  local before lines
  lines=$(wc -l <"$results")
  wait_until_idle
  times >"$own/times.txt" # of the processes that this shell has waited for
  before=$(jiffies)
  "$@"
  times >>"$own/times.txt"
  awk -v a="$before" -v b="$(jiffies)" -v hertz="$(getconf CLK_TCK)" '
    function seconds(text,    part) { split(text, part, /[ms]/); return part[1] * 60 + part[2] }
    NR == 2 { own = -seconds($1) - seconds($2) }
    NR == 4 { own += seconds($1) + seconds($2) }
    END {
      split(a, x)
      split(b, y)
      all = y[2] - x[2]
      exit !(all - (y[1] - x[1]) - own * hertz > 0.1 * all)
    }' "$own/times.txt" || return 0
  disturbed=$((disturbed + 1))
  sed -i "$((lines + 1)),\$s/\$/,disturbed/" "$results"
}

# The lines "NAME/RANKS SIZE MEDIAN MIN MAX" that a program prints; the series gets NAME at its end.
# What MEDIAN is divided by:
divisor=1
network=() # what runs each command
collect() { # SERIES COMMAND...
  local series=$1
  shift
  "${network[@]}" "$@" 2>"$own/stderr.txt" |
    awk -v series="$series" -v divisor="$divisor" '
      { sub(/^\[worker 0\] /, ""); split($1, name, "/"); print series " " name[1] "," name[2] "/" $2 "," $3 / divisor }' \
      >>"$results" || { cat "$own/stderr.txt" >&2; fail "$1 failed"; }
}

describe_machine() {
  local model
  model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
  echo "Machine: ${model:-$(uname -m)}, $(nproc) cores, Linux $(uname -r)$1"
  echo "lockstep $(git describe --always --dirty 2>/dev/null || echo '(no repository)'), $("${CXX:-g++}" --version | head -n 1), -O2"
}

if ((with[torch])) && ! "$torch_python" -c 'import torch' 2>/dev/null; then
  with[torch]=0
  say 'NOT MEASURED: PyTorch, which is not installed'
fi
if ((with[tensorflow])) && ! TF_CPP_MIN_LOG_LEVEL=3 "$tensorflow_python" -c 'import tensorflow' 2>/dev/null; then
  with[tensorflow]=0
  say 'NOT MEASURED: TensorFlow, which is not installed'
fi
if ((with[onnxruntime])) && ! "$onnxruntime_python" -c 'import onnxruntime' 2>/dev/null; then
  with[onnxruntime]=0
  say 'NOT MEASURED: onnxruntime, which is not installed'
fi
if ((with[llmc])) && [[ ! -x build/peers/llmc_O3 || ! -x build/peers/llmc_Ofast ]]; then
  with[llmc]=0
  say 'NOT MEASURED: llm.c, which is not built (benchmarks/peers/setup.sh llmc)'
fi

# In the best environment found: freed buffers stay in the process.
python_environment=(env MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456)

if [[ $command == all_reduce ]]; then
  source benchmarks/compare_all_reduce.sh
  exit
fi

if [[ $command == inference ]]; then
  build $own '' benchmark_inference
  mkdir -p $own/onnx
  : >"$results"
  peer_inference() { # SERIES PYTHON MODULE
    "$2" benchmarks/peers/inference.py "$3" $own/onnx 2>"$own/stderr.txt" |
      awk -F, -v series="$1" '{ gsub(/"/, ""); print series ($2 == "" ? "" : " " $2) "," $1 "," $3 }' >>"$results" ||
      { cat "$own/stderr.txt" >&2; fail "peers/inference.py failed"; }
  }
  for ((round = 1; round <= rounds; ++round)); do
    say "round $round of $rounds"
    $own/benchmarks/benchmark_inference 2000 1 $own/onnx >"$own/inference.txt" || fail 'benchmark_inference failed'
    awk -F ' *[|] *' '/^[|] [a-z]/ { print "lockstep,inference/" $2 "," $3 }' "$own/inference.txt" >>"$results"
    ((with[onnxruntime] == 0)) || peer_inference onnxruntime "$onnxruntime_python" onnxruntime
    ((with[torch] == 0)) || peer_inference PyTorch "$torch_python" torch
  done
  isa=$(sed -n 's/^instruction set: //p' "$own/inference.txt")
  describe_machine "; instruction set in force: $isa"
  ((with[onnxruntime] == 0)) || echo "onnxruntime $("$onnxruntime_python" -c 'import onnxruntime; print(onnxruntime.__version__)')"
  ((with[torch] == 0)) || echo "PyTorch $("$torch_python" -c 'import torch; print(torch.__version__)'), eager and traced"
  echo "$rounds rounds of 2000 calls"
  echo
  awk -F, -v isa="$isa" -v against="$against" -f benchmarks/compare_table.awk -f benchmarks/compare_inference.awk "$results"
  exit
fi

case $command in
  step) program=benchmark_steps peers=step ;;
  models) program=benchmark_deep_steps peers=models ;;
  layers) program=benchmark_layers peers=none ;;
esac
build $own '' "$program"
[[ $command != models ]] || build $own '' benchmark_deep_worker_steps
if ((with[onednn])); then
  if offers $own benchmark_onednn; then
    build $own '' benchmark_onednn
  else
    with[onednn]=0
    say 'NOT MEASURED: oneDNN, which is not installed (Debian: libdnnl-dev)'
  fi
fi
((with[native] == 0)) || build $native -march=native "$program"

# --- measure --------------------------------------------------------------------------------------

: >"$results" # values are milliseconds; under the name peak FLOP/s, under flop/... FLOP, under bytes/... bytes

# Google Benchmark's CSV, as lines of $results.
from_csv() { # SERIES
  awk -F, -v series="$1" '
    { gsub(/"/, "") }
    $1 == "name" { for (i = 1; i <= NF; ++i) column[$i] = i; next }
    !("real_time" in column) || $1 ~ /_(mean|median|stddev|cv)$/ { next }
    {
      milliseconds = $column[$1 ~ /_time$/ ? "real_time" : "cpu_time"]
      sub(/\/(real|manual)_time$/, "", $1)
      if ($1 == "peak") { print series ",peak," $column["FLOP/s"]; next }
      print series "," $1 "," milliseconds
      if ("FLOP" in column && $column["FLOP"] > 0) print series ",flop/" $1 "," $column["FLOP"]
      if ("bytes" in column && $column["bytes"] > 0) print series ",bytes/" $1 "," $column["bytes"]
    }'
}
measure() { # SERIES PROGRAM FILTER
  "$2" --benchmark_filter="$3" --benchmark_format=csv --benchmark_min_time="$min_time" --benchmark_repetitions=3 2>"$own/stderr.txt" |
    from_csv "$1" >>"$results" || { cat "$own/stderr.txt" >&2; fail "$2 failed"; }
}
# The lines '"NAME","VARIANT",MILLISECONDS' that a peer prints.
from_peer() { # SERIES
  awk -F, -v series="$1" '{ gsub(/"/, ""); print series " " $2 "," $1 "," $3 }'
}
measure_python() { # SERIES PYTHON PROGRAM THREADS VARIANTS
  "${python_environment[@]}" OMP_NUM_THREADS="$4" "$2" "benchmarks/peers/$3" --threads "$4" --variants "$5" 2>"$own/stderr.txt" |
    from_peer "$1" >>"$results" || { cat "$own/stderr.txt" >&2; fail "$3 failed"; }
}
measure_torch() { measure_python PyTorch "$torch_python" torch_$peers.py "$1" "$variants"; }
measure_tensorflow() { measure_python TensorFlow "$tensorflow_python" tensorflow_$peers.py "$1" function,xla; }
measure_llmc() { # THREADS
  local variant
  for variant in O3 Ofast; do
    OMP_NUM_THREADS="$1" build/peers/llmc_$variant 2>"$own/stderr.txt" | from_peer llm.c >>"$results" ||
      { cat "$own/stderr.txt" >&2; fail "llmc_$variant failed"; }
  done
}

for ((round = 1; round <= rounds; ++round)); do
  say "round $round of $rounds"
  measure lockstep $own/benchmarks/"$program" 'layer|(step|loop)/.*/1|peak|memory'
  ((with[onednn] == 0)) || OMP_NUM_THREADS=1 measure oneDNN $own/benchmarks/benchmark_onednn "${command/layers/layer}"
  ((with[native] == 0)) || measure native $native/benchmarks/"$program" 'step/.*/1'
  ((with[torch] == 0)) || measure_torch 1
  ((with[tensorflow] == 0)) || measure_tensorflow 1
  ((with[llmc] == 0)) || measure_llmc 1
  [[ $command != layers ]] || continue
  undisturbed measure lockstep $own/benchmarks/"$program" '(step|loop)/.*/2'
  ((with[onednn] == 0)) || OMP_NUM_THREADS=2 undisturbed measure oneDNN $own/benchmarks/benchmark_onednn step
  ((with[torch] == 0)) || undisturbed measure_torch 2
  ((with[tensorflow] == 0)) || undisturbed measure_tensorflow 2
  ((with[llmc] == 0)) || undisturbed measure_llmc 2
  [[ $command == models ]] || continue
  for model in gpt resnet bilstm gpt2; do
    divisor=1000 undisturbed collect workers $own/benchmarks/benchmark_deep_worker_steps --policy $model --ranks 2
    ((with[torch] == 0)) || divisor=1000 undisturbed collect 'PyTorch DDP' "${python_environment[@]}" OMP_NUM_THREADS=1 \
      "$torch_python" benchmarks/peers/torch_ddp.py --processes 2 --model $model \
      --variants "$([[ $model == resnet ]] && echo eager,channels_last || echo eager)"
  done
done

# --- report ---------------------------------------------------------------------------------------

isa=$($own/benchmarks/"$program" --benchmark_filter=peak --benchmark_min_time=0.01 2>&1 | sed -n 's/^instruction set: //p')
describe_machine "; instruction set in force: $isa"
((with[onednn] == 0)) || echo "oneDNN $(OMP_NUM_THREADS=1 $own/benchmarks/benchmark_onednn --benchmark_filter=step/mlp --benchmark_min_time=0.01 2>&1 | sed -n 's/^oneDNN: //p')"
((with[torch] == 0)) || echo "PyTorch $("$torch_python" -c 'import torch; print(torch.__version__)'), variants: $variants"
((with[tensorflow] == 0)) || echo "TensorFlow $(TF_CPP_MIN_LOG_LEVEL=3 "$tensorflow_python" -c 'import tensorflow; print(tensorflow.__version__)' 2>/dev/null), variants: function,xla"
((with[llmc] == 0)) || echo "$(build/peers/llmc_O3 --version) and Ofast"
echo "$rounds rounds of 3 repetitions"
((disturbed == 0)) || echo "OTHER PROGRAMS RAN during $disturbed measurements on 2 threads, which therefore do not count"
echo
awk -F, -v isa="$isa" -v against="$against" -f benchmarks/compare_table.awk -f "benchmarks/compare_$command.awk" "$results"

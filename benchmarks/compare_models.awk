# The table of `compare.sh models`, with compare_table.awk. Exit code as that of compare.sh.

END {
  python = "PyTorch eager|PyTorch channels_last|PyTorch compile|TensorFlow function|TensorFlow xla"
  print_header("ms")
  n = split("gpt 0.45 char GPT,resnet 0.75 ResNet-20,bilstm 0.42 BiLSTM,gpt2 0.35 GPT-2 124M", models, ",")
  for (m = 1; m <= n; ++m) {
    split(models[m], part, " ")
    title = substr(models[m], length(part[1]) + length(part[2]) + 3)
    for (threads = 1; threads <= 2; ++threads) {
      name = "step/" part[1] "/" threads
      row(title ", " threads " thread" (threads > 1 ? "s" : "") ": best of PyTorch and TensorFlow", "lockstep", name, python, name,
          part[2], "PyTorch")
    }
    limit_row(title, "step/" part[1] "/1", 1.75)
  }
  for (threads = 1; threads <= 2; ++threads) {
    name = "step/gpt2/" threads
    title = "GPT-2 124M, " threads " thread" (threads > 1 ? "s" : "") ": llm.c train_gpt2.c"
    row(title ", -O3", "lockstep", name, "llm.c O3", name, 0.20)
    row(title ", -Ofast as in its Makefile", "lockstep", name, "llm.c Ofast", name)
  }
  for (m = 1; m <= n; ++m) {
    split(models[m], part, " ")
    title = substr(models[m], length(part[1]) + length(part[2]) + 3)
    split("12 128 32 4", batch, " ")
    name = "2/" batch[m]
    peers = "PyTorch DDP " part[1] "_eager"
    row(title ", 2 processes: PyTorch DDP with gloo", "workers " part[1], name, peers "|PyTorch DDP " part[1] "_channels_last", name, 0.50,
        "PyTorch")
    row(title ", memory of each of them, MB", "workers " part[1] "_memory", name, peers "_memory", name, 0.50, "PyTorch")
  }
  exit exit_code()
}

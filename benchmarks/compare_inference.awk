# The table of `compare.sh inference`, with compare_table.awk. Exit code as that of compare.sh.

END {
  print_header("us")
  for (m = split("table mlp cnn", models, " "); m > 0; --m) {
    name = "inference/" models[4 - m]
    row(models[4 - m] ": onnxruntime", "lockstep", name, "onnxruntime", name, 0.50, "onnxruntime")
    row(models[4 - m] ": best of PyTorch", "lockstep", name, "PyTorch eager|PyTorch traced", name, 0.50, "PyTorch")
  }
  for (m = split("mlp cnn", models, " "); m > 0; --m) {
    name = "inference/" models[3 - m]
    row(models[3 - m] " with Int8Weights: onnxruntime, float", "lockstep", name " int8", "onnxruntime", name, 0.50, "onnxruntime")
    row(models[3 - m] " with Int8Weights: best of PyTorch, float", "lockstep", name " int8", "PyTorch eager|PyTorch traced", name, 0.50, "PyTorch")
  }
  exit exit_code()
}

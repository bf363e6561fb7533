// Training steps of GPT-2 124M in llm.c's train_gpt2.c: 4 texts of 64 tokens, one batch over and
// over. setup.sh builds it beside a checkout of llm.c: -I CHECKOUT -fopenmp -DOMP.
//
// OMP_NUM_THREADS=N llmc_step prints a line "step/gpt2/N","VARIANT",milliseconds for each of three
// steps, after one that allocates; of processor time with one thread, which other programs disturb
// little. llmc_step --version says what it was built from. The weights are random, for the times do
// not depend on them.

#include <stdio.h>

// Without its main, and with its messages on stderr.
#define TESTING
#define printf(...) fprintf(stderr, __VA_ARGS__)
#include "train_gpt2.c"
#undef printf

// What setup.sh tells: the flags of the optimizer that this is built with, and from what.
#ifndef VARIANT
#define VARIANT "train_gpt2.c"
#endif
#ifndef BUILT_FROM
#define BUILT_FROM "llm.c"
#endif

enum { batch = 4, tokens = 64, repetitions = 3 };

static unsigned next_random(void) {
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return state >> 8;
}

static void fill_with(float* values, size_t count, float value) {
  for (size_t i = 0; i < count; ++i) values[i] = value;
}

/// What gpt2_build_from_checkpoint does, with weights like those at the start of a training.
static void build_at_random(GPT2* model) {
  memset(model, 0, sizeof *model);
  model->config = (GPT2Config){.max_seq_len = 1024,
                               .vocab_size = 50257,
                               .padded_vocab_size = 50304,
                               .num_layers = 12,
                               .num_heads = 12,
                               .channels = 768};
  fill_in_parameter_sizes(model->param_sizes, model->config);
  for (int i = 0; i < NUM_PARAMETER_TENSORS; ++i) model->num_parameters += model->param_sizes[i];
  model->params_memory = malloc_and_point_parameters(&model->params, model->param_sizes);
  for (size_t i = 0; i < model->num_parameters; ++i)
    model->params_memory[i] = 0.02f * ((float)next_random() * 0x1p-23f - 1.0f);
  const size_t width = (size_t)model->config.channels, layers = (size_t)model->config.num_layers;
  fill_with(model->params.ln1w, layers * width, 1.0f);
  fill_with(model->params.ln2w, layers * width, 1.0f);
  fill_with(model->params.lnfw, width, 1.0f);
  model->mean_loss = -1.0f;  // as long as there is no loss
}

static double now(int threads) {
  struct timespec time;
  clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--version") == 0) {
    printf("%s, %s\n", BUILT_FROM, VARIANT);
    return 0;
  }
  if (argc != 1) {
    fprintf(stderr, "usage: OMP_NUM_THREADS=N %s [--version]\n", argv[0]);
    return 2;
  }
  const int threads = omp_get_max_threads();

  GPT2 model;
  build_at_random(&model);
  int inputs[batch * tokens], targets[batch * tokens];
  for (int i = 0; i < batch * tokens; ++i) {
    inputs[i] = (int)(next_random() % (unsigned)model.config.vocab_size);
    targets[i] = (int)(next_random() % (unsigned)model.config.vocab_size);
  }

  float first_loss = 0.0f;
  for (int step = 0; step <= repetitions; ++step) {
    const double begin = now(threads);
    gpt2_forward(&model, inputs, targets, batch, tokens);
    gpt2_zero_grad(&model);
    gpt2_backward(&model);
    gpt2_update(&model, 1e-4f, 0.9f, 0.999f, 1e-8f, 0.01f, step + 1);
    const double milliseconds = (now(threads) - begin) * 1e3;
    if (step == 0) {
      first_loss = model.mean_loss;
      continue;
    }
    printf("\"step/gpt2/%d\",\"%s\",%.6g\n", threads, VARIANT, milliseconds);
    fflush(stdout);
  }

  // A step that trains nothing is none: on one batch the loss falls, from that of a guess.
  const float guess = logf((float)model.config.vocab_size), last_loss = model.mean_loss;
  gpt2_free(&model);
  if (fabsf(first_loss - guess) < 1.0f && last_loss < first_loss) return 0;
  fprintf(stderr, "%s: the loss went from %g to %g; expected: from about %g, and down\n", argv[0],
          (double)first_loss, (double)last_loss, (double)guess);
  return 1;
}

// What every header that export_header writes begins with: the layers as plain C++17.
#pragma once

#include <string_view>

#include "lockstep/core/config.hpp"

namespace lockstep { inline namespace LOCKSTEP_ABI { namespace detail {

/// Arrays are row by row, the last extent fastest, channels last, as in Keras. Sums of products are
/// made in blocks, as a sum of thousands of floats loses digits.
inline constexpr std::string_view header_runtime = R"(
inline float linear(float x) { return x; }
inline float relu(float x) { return x > 0 ? x : 0; }
inline float relu6(float x) { return x > 6 ? 6 : relu(x); }
template <int percent>
float leaky_relu(float x) { return x > 0 ? x : x * (percent / 100.f); }
inline float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
inline float tanh(float x) { return std::tanh(x); }
inline float elu(float x) { return x > 0 ? x : std::expm1(x); }
inline float selu(float x) { return 1.05070098f * (x > 0 ? x : 1.67326324f * std::expm1(x)); }
inline float softplus(float x) { return (x > 0 ? x : 0) + std::log1p(std::exp(-std::fabs(x))); }
inline float softsign(float x) { return x / (1 + std::fabs(x)); }
inline float exponential(float x) { return std::exp(x); }
inline float hard_sigmoid(float x) { return relu6(x + 3) / 6; }
inline float hard_silu(float x) { return x * hard_sigmoid(x); }
inline float silu(float x) { return x * sigmoid(x); }
inline float mish(float x) { return x * std::tanh(softplus(x)); }
inline float gelu(float x) { return x / 2 * (1 + std::erf(x * 0.707106781f)); }
inline float gelu_tanh(float x) {
  return x / 2 * (1 + std::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}

template <int n, float (*f)(float)>
void map(const float* x, float* y) {
  for (int i = 0; i < n; ++i) y[i] = f(x[i]);
}
template <int n, int channels>
void scale_shift(const float* x, const float* scale, const float* shift, float* y) {
  for (int i = 0; i < n; ++i) y[i] = x[i] * scale[i % channels] + shift[i % channels];
}
template <int n>
void add(const float* x, float* sum) {
  for (int i = 0; i < n; ++i) sum[i] += x[i];
}
template <int n>
void multiply(const float* x, float* product) {
  for (int i = 0; i < n; ++i) product[i] *= x[i];
}
/// Blocks of `size` numbers, to places `step` apart.
template <int blocks, int size, int step>
void put(const float* x, float* y) {
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < size; ++i) y[b * step + i] = x[b * size + i];
}
template <int begin, int count>
void slice(const float* x, float* y) {
  for (int i = 0; i < count; ++i) y[i] = x[begin + i];
}
template <int channels>
void softmax(const float* x, float* y) {
  float most = x[0], sum = 0;
  for (int c = 1; c < channels; ++c) most = x[c] > most ? x[c] : most;
  for (int c = 0; c < channels; ++c) sum += y[c] = std::exp(x[c] - most);
  for (int c = 0; c < channels; ++c) y[c] /= sum;
}
template <int channels>
void layer_normalization(const float* x, const float* scale, const float* shift,
                         const float* epsilon, float* y) {
  float mean = 0, variance = 0;
  for (int c = 0; c < channels; ++c) mean += x[c];
  mean /= channels;
  for (int c = 0; c < channels; ++c) variance += (x[c] - mean) * (x[c] - mean);
  const float factor = 1 / std::sqrt(variance / channels + *epsilon);
  for (int c = 0; c < channels; ++c) y[c] = (x[c] - mean) * factor * scale[c] + shift[c];
}

/// sums[j] += sum over i of x[i] * w[i * step + j], for j < width, at most 8.
template <int inputs>
void add_product(const float* x, const float* w, int step, int width, float* sums) {
  for (int begin = 0; begin < inputs; begin += 128) {
    const int end = begin + 128 < inputs ? begin + 128 : inputs;
    float part[8] = {};
    for (int i = begin; i < end; ++i)
      for (int j = 0; j < width; ++j) part[j] += x[i] * w[i * step + j];
    for (int j = 0; j < width; ++j) sums[j] += part[j];
  }
}
/// w: [inputs][units]. b may be null.
template <int inputs, int units>
void dense(const float* x, const float* w, const float* b, float* y) {
  for (int u = 0; u < units; u += 8) {
    const int width = u + 8 < units ? 8 : units - u;
    for (int j = 0; j < width; ++j) y[u + j] = b == nullptr ? 0 : b[u + j];
    add_product<inputs>(x, w + u, units, width, y + u);
  }
}

/// A window: extents of the images, of the kernel, strides, dilations, padding above and left, and
/// the extents of the output.
template <int h, int w, int kh, int kw, int sh, int sw, int dh, int dw, int ph, int pw, int oh,
          int ow>
struct Window {
  static constexpr int outputs = oh * ow;
  /// Calls f(pixel of the input, tap of the kernel) for the taps of an output that are inside.
  template <class F>
  static void each(int output, const F& f) {
    for (int i = 0; i < kh; ++i)
      for (int j = 0; j < kw; ++j) {
        const int row = output / ow * sh + i * dh - ph, column = output % ow * sw + j * dw - pw;
        if (row >= 0 && row < h && column >= 0 && column < w) f(row * w + column, i * kw + j);
      }
  }
};
/// w: [taps][channels][filters].
template <class W, int channels, int filters>
void convolution(const float* x, const float* w, const float* b, float* y) {
  for (int o = 0; o < W::outputs; ++o)
    for (int u = 0; u < filters; u += 8) {
      const int width = u + 8 < filters ? 8 : filters - u;
      float* const to = y + o * filters + u;
      for (int j = 0; j < width; ++j) to[j] = b == nullptr ? 0 : b[u + j];
      W::each(o, [&](int pixel, int tap) {
        add_product<channels>(x + pixel * channels, w + tap * channels * filters + u, filters,
                              width, to);
      });
    }
}
/// w: [taps][channels][filters of each].
template <class W, int channels, int filters>
void depthwise_convolution(const float* x, const float* w, const float* b, float* y) {
  for (int o = 0; o < W::outputs; ++o)
    for (int c = 0; c < channels * filters; ++c) {
      float sum = b == nullptr ? 0 : b[c];
      W::each(o, [&](int pixel, int tap) {
        sum += x[pixel * channels + c / filters] * w[tap * channels * filters + c];
      });
      y[o * channels * filters + c] = sum;
    }
}
template <class W, int channels>
void max_pooling(const float* x, float* y) {
  for (int o = 0; o < W::outputs; ++o)
    for (int c = 0; c < channels; ++c) {
      float most = -INFINITY;
      W::each(o, [&](int pixel, int) {
        most = x[pixel * channels + c] > most ? x[pixel * channels + c] : most;
      });
      y[o * channels + c] = most;
    }
}
/// The mean of what is inside the image.
template <class W, int channels>
void average_pooling(const float* x, float* y) {
  for (int o = 0; o < W::outputs; ++o)
    for (int c = 0; c < channels; ++c) {
      float sum = 0;
      int count = 0;
      W::each(o, [&](int pixel, int) {
        sum += x[pixel * channels + c];
        ++count;
      });
      y[o * channels + c] = sum / static_cast<float>(count);
    }
}

/// A row of the table for each id.
template <int positions, int rows, int width>
void embedding(const float* x, const float* table, float* y) {
  for (int i = 0; i < positions; ++i) {
    const int id = static_cast<int>(x[i]), row = id < 0 ? 0 : id < rows ? id : rows - 1;
    for (int j = 0; j < width; ++j) y[i * width + j] = table[row * width + j];
  }
}

/// f and g are the activations of the state and of the gates; k: [inputs][gates], r:
/// [units][gates], b: [gates] or null.
template <int steps, int inputs, int units, bool sequences, bool backwards>
struct Recurrence {
  template <class Step>
  static void run(const float* x, float* y, const Step& step) {
    float state[units] = {};
    for (int i = 0; i < steps; ++i) {
      step(x + (backwards ? steps - 1 - i : i) * inputs, state);
      if (sequences || i == steps - 1)
        for (int u = 0; u < units; ++u) y[(sequences ? i * units : 0) + u] = state[u];
    }
  }
};
template <int steps, int inputs, int units, bool sequences, bool backwards, float (*f)(float)>
void simple_rnn(const float* x, const float* k, const float* r, const float* b, float* y) {
  Recurrence<steps, inputs, units, sequences, backwards>::run(x, y, [&](const float* t, float* h) {
    float z[units], q[units];
    dense<inputs, units>(t, k, b, z);
    dense<units, units>(h, r, nullptr, q);
    for (int u = 0; u < units; ++u) h[u] = f(z[u] + q[u]);
  });
}
template <int steps, int inputs, int units, bool sequences, bool backwards, float (*f)(float),
          float (*g)(float)>
void lstm(const float* x, const float* k, const float* r, const float* b, float* y) {
  float cells[units] = {};
  Recurrence<steps, inputs, units, sequences, backwards>::run(x, y, [&](const float* t, float* h) {
    float z[4 * units], q[4 * units];
    dense<inputs, 4 * units>(t, k, b, z);
    dense<units, 4 * units>(h, r, nullptr, q);
    for (int i = 0; i < 4 * units; ++i) z[i] += q[i];
    for (int u = 0; u < units; ++u) {
      cells[u] = g(z[units + u]) * cells[u] + g(z[u]) * f(z[2 * units + u]);
      h[u] = g(z[3 * units + u]) * f(cells[u]);
    }
  });
}
/// b: that of the inputs, and behind it that of the state where the reset gate comes after the
/// product.
template <int steps, int inputs, int units, bool sequences, bool backwards, float (*f)(float),
          float (*g)(float), bool reset_after>
void gru(const float* x, const float* k, const float* r, const float* b, float* y) {
  Recurrence<steps, inputs, units, sequences, backwards>::run(x, y, [&](const float* t, float* h) {
    float z[3 * units], q[3 * units], kept[units];
    dense<inputs, 3 * units>(t, k, b, z);
    dense<units, 3 * units>(h, r, b != nullptr && reset_after ? b + 3 * units : nullptr, q);
    for (int u = 0; u < units; ++u) kept[u] = g(z[units + u] + q[units + u]) * h[u];
    for (int u = 0; u < units; ++u) {
      float inside = z[2 * units + u];
      if (reset_after)
        inside += g(z[units + u] + q[units + u]) * q[2 * units + u];
      else
        for (int v = 0; v < units; ++v) inside += kept[v] * r[v * 3 * units + 2 * units + u];
      q[2 * units + u] = f(inside);
    }
    for (int u = 0; u < units; ++u) {
      const float update = g(z[u] + q[u]);
      h[u] = update * h[u] + (1 - update) * q[2 * units + u];
    }
  });
}
)";

}}}  // namespace lockstep::detail

// One training step of the tutorial's CNN on oneDNN primitives (API of version 2), in the layouts that they ask for.
#pragma once

#include <cstdint>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <vector>

/// Forward with fused bias and ReLU, backward, SGD; the gradient of the logits is a constant. All memory is allocated once.
class OneDnnStep {
 public:
  explicit OneDnnStep(std::int64_t n) : engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {
    using namespace dnnl;
    using tag = memory::format_tag;
    const auto f32 = memory::data_type::f32;
    const auto any = [&](memory::dims dims) { return memory::desc(std::move(dims), f32, tag::any); };

    post_ops relu;
    relu.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    primitive_attr with_relu;
    with_relu.set_post_ops(relu);

    const memory::desc x_desc({n, 1, 28, 28}, f32, tag::nchw);
    const memory::desc conv_bias({32}, f32, tag::x), bias1({128}, f32, tag::x), bias2({10}, f32, tag::x);
    const memory::dims strides{1, 1}, padding{0, 0};
    const convolution_forward::primitive_desc conv(
        {prop_kind::forward_training, algorithm::convolution_direct, x_desc, any({32, 1, 3, 3}), conv_bias,
         any({n, 32, 26, 26}), strides, padding, padding},
        with_relu, engine_);
    const convolution_forward::primitive_desc conv_plain(
        {prop_kind::forward_training, algorithm::convolution_direct, x_desc, any({32, 1, 3, 3}), conv_bias,
         conv.dst_desc(), strides, padding, padding},
        engine_);
    const convolution_backward_weights::primitive_desc conv_weights(
        {algorithm::convolution_direct, x_desc, any({32, 1, 3, 3}), conv_bias, conv.dst_desc(), strides, padding,
         padding},
        engine_, conv_plain);

    const inner_product_forward::primitive_desc ip1(
        {prop_kind::forward_training, conv.dst_desc(), any({128, 32, 26, 26}), bias1,
         memory::desc({n, 128}, f32, tag::nc)},
        with_relu, engine_);
    const inner_product_backward_weights::primitive_desc ip1_weights(
        {conv.dst_desc(), any({128, 32, 26, 26}), bias1, memory::desc({n, 128}, f32, tag::nc)}, engine_, ip1);
    const inner_product_backward_data::primitive_desc ip1_data(
        {conv.dst_desc(), any({128, 32, 26, 26}), memory::desc({n, 128}, f32, tag::nc)}, engine_, ip1);
    const inner_product_forward::primitive_desc ip2({prop_kind::forward_training, memory::desc({n, 128}, f32, tag::nc),
                                                     any({10, 128}), bias2, memory::desc({n, 10}, f32, tag::nc)},
                                                    engine_);
    const inner_product_backward_weights::primitive_desc ip2_weights(
        {memory::desc({n, 128}, f32, tag::nc), any({10, 128}), bias2, memory::desc({n, 10}, f32, tag::nc)}, engine_,
        ip2);
    const inner_product_backward_data::primitive_desc ip2_data(
        {memory::desc({n, 128}, f32, tag::nc), any({10, 128}), memory::desc({n, 10}, f32, tag::nc)}, engine_, ip2);

    const memory x = make(x_desc), y1 = make(conv.dst_desc()), dy1 = make(conv.dst_desc());
    const memory y2 = make(ip1.dst_desc()), dy2 = make(ip1.dst_desc()), y3 = make(ip2.dst_desc()),
                 dy3 = make(ip2.dst_desc());
    const memory w0 = make(conv.weights_desc()), b0 = make(conv_bias), w1 = make(ip1.weights_desc()), b1 = make(bias1);
    const memory w2 = make(ip2.weights_desc()), b2 = make(bias2), db0 = make(conv_bias), db1 = make(bias1),
                 db2 = make(bias2);

    add(convolution_forward(conv),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w0}, {DNNL_ARG_BIAS, b0}, {DNNL_ARG_DST, y1}});
    add(inner_product_forward(ip1),
        {{DNNL_ARG_SRC, y1}, {DNNL_ARG_WEIGHTS, w1}, {DNNL_ARG_BIAS, b1}, {DNNL_ARG_DST, y2}});
    add(inner_product_forward(ip2),
        {{DNNL_ARG_SRC, y2}, {DNNL_ARG_WEIGHTS, w2}, {DNNL_ARG_BIAS, b2}, {DNNL_ARG_DST, y3}});

    const memory dw2 = make(ip2_weights.diff_weights_desc());
    add(inner_product_backward_weights(ip2_weights),
        {{DNNL_ARG_SRC, y2}, {DNNL_ARG_DIFF_DST, dy3}, {DNNL_ARG_DIFF_WEIGHTS, dw2}, {DNNL_ARG_DIFF_BIAS, db2}});
    add(inner_product_backward_data(ip2_data), {{DNNL_ARG_DIFF_DST, dy3},
                                                {DNNL_ARG_WEIGHTS, reordered(w2, ip2_data.weights_desc())},
                                                {DNNL_ARG_DIFF_SRC, dy2}});
    add_relu_gradient(y2, dy2);

    const memory dw1 = make(ip1_weights.diff_weights_desc());
    add(inner_product_backward_weights(ip1_weights),
        {{DNNL_ARG_SRC, y1}, {DNNL_ARG_DIFF_DST, dy2}, {DNNL_ARG_DIFF_WEIGHTS, dw1}, {DNNL_ARG_DIFF_BIAS, db1}});
    add(inner_product_backward_data(ip1_data), {{DNNL_ARG_DIFF_DST, dy2},
                                                {DNNL_ARG_WEIGHTS, reordered(w1, ip1_data.weights_desc())},
                                                {DNNL_ARG_DIFF_SRC, dy1}});
    add_relu_gradient(y1, dy1);

    const memory dw0 = make(conv_weights.diff_weights_desc());
    add(convolution_backward_weights(conv_weights),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_DST, dy1}, {DNNL_ARG_DIFF_WEIGHTS, dw0}, {DNNL_ARG_DIFF_BIAS, db0}});

    add_update(w0, dw0);
    add_update(w1, dw1);
    add_update(w2, dw2);
    add_update(b0, db0);
    add_update(b1, db1);
    add_update(b2, db2);
  }

  void run() {
    for (const auto& action : actions_) action();
    stream_.wait();
  }

 private:
  using Arguments = std::unordered_map<int, dnnl::memory>;

  dnnl::memory make(const dnnl::memory::desc& desc) {
    dnnl::memory memory(desc, engine_);
    auto* values = static_cast<float*>(memory.get_data_handle());
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = 0.05f * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
    return memory;
  }

  void add(dnnl::primitive primitive, Arguments arguments) {
    actions_.push_back([this, primitive, arguments] { primitive.execute(stream_, arguments); });
  }

  /// `from`, or a copy in the layout that a primitive asks for, made anew in each step.
  dnnl::memory reordered(const dnnl::memory& from, const dnnl::memory::desc& desc) {
    if (from.get_desc() == desc) return from;
    dnnl::memory to = make(desc);
    add(dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return to;
  }

  void add_relu_gradient(const dnnl::memory& y, const dnnl::memory& dy) {
    using namespace dnnl;
    const auto relu = algorithm::eltwise_relu_use_dst_for_bwd;
    const eltwise_forward::primitive_desc forward({prop_kind::forward_training, relu, y.get_desc(), 0.0f, 0.0f},
                                                  engine_);
    const eltwise_backward::primitive_desc backward({relu, dy.get_desc(), y.get_desc(), 0.0f, 0.0f}, engine_, forward);
    add(eltwise_backward(backward), {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dy}});
  }

  void add_update(const dnnl::memory& weights, const dnnl::memory& gradient) {
    using namespace dnnl;
    const memory same = reordered(gradient, weights.get_desc());
    const sum::primitive_desc update(weights.get_desc(), {1.0f, -1e-6f}, {weights.get_desc(), weights.get_desc()},
                                     engine_);
    add(sum(update), {{DNNL_ARG_MULTIPLE_SRC, weights}, {DNNL_ARG_MULTIPLE_SRC + 1, same}, {DNNL_ARG_DST, weights}});
  }

  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<std::function<void()>> actions_;
};

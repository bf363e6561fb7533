// Training steps of the models in ../models.hpp on oneDNN primitives (API of version 2), as a good
// user of it would write them: bias and ReLU fused into the forward primitives, ReLU fused into the
// normalisation, every primitive asked for the layout that it likes best (`any`), weights kept in
// the layout of forward, all memory allocated once. The gradient of the logits is a constant:
// neither loss nor metrics are computed.
//
// OMP_NUM_THREADS=N benchmark_onednn [options of Google Benchmark]
//
// Names: step/MODEL/N; with one thread also layer/MODEL/LAYER/PASS, as those of benchmark_layers.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace {

using dnnl::memory;
using Dims = memory::dims;
using Format = memory::format_tag;

constexpr auto f32 = memory::data_type::f32;

memory::desc any(const Dims& dims) { return {dims, f32, Format::any}; }
memory::desc vector_of(std::int64_t size) { return {{size}, f32, Format::x}; }

/// A model under construction, and then its step: the forward actions, the backward actions, the
/// updates.
class Step {
 public:
  Step(std::int64_t samples, const Dims& sample_shape, Format format) : samples_(samples) {
    Dims dims{samples};
    dims.insert(dims.end(), sample_shape.begin(), sample_shape.end());
    y_ = make({dims, f32, format});
    first_ = true;
  }

  Step& convolution(std::int64_t filters, std::int64_t padding, bool relu) {
    using namespace dnnl;
    const std::string name = numbered("conv2d");
    const memory x = y_, dx = dy_;
    const Dims in = x.get_desc().dims();
    const Dims out{samples_, filters, in[2] + 2 * padding - 2, in[3] + 2 * padding - 2};
    const Dims kernel{filters, in[1], 3, 3}, strides{1, 1}, pads{padding, padding};
    const memory::desc bias = vector_of(filters);
    const auto direct = algorithm::convolution_direct;
    // A first layer's input stays as the user has it: the primitives know that case.
    const memory::desc x_any = first_ ? x.get_desc() : any(in);
    const convolution_forward::desc forward_desc(prop_kind::forward_training, direct, x_any,
                                                 any(kernel), bias, any(out), strides, pads, pads);
    const convolution_forward::primitive_desc forward(forward_desc, attributes(relu), engine_);
    y_ = make(forward.dst_desc());
    dy_ = make(forward.dst_desc());
    const memory y = y_, dy = dy_, w = make(forward.weights_desc()), b = make(bias),
                 db = make(bias);
    const std::string pass = name + "/forward";
    add(forward_, pass, convolution_forward(forward),
        {{DNNL_ARG_SRC, reordered(forward_, pass, x, forward.src_desc())},
         {DNNL_ARG_WEIGHTS, w},
         {DNNL_ARG_BIAS, b},
         {DNNL_ARG_DST, y}});

    const convolution_backward_weights::primitive_desc by_weights(
        {direct, x_any, any(kernel), bias, any(out), strides, pads, pads}, engine_, forward);
    const memory dw = make(by_weights.diff_weights_desc());
    const bool first = first_;
    backward_makers_.push_back([=, this] {
      const std::string weights_pass = name + "/weight_gradient";
      if (relu) add_relu_gradient(weights_pass, y, dy);
      add(backward_, weights_pass, convolution_backward_weights(by_weights),
          {{DNNL_ARG_SRC, reordered(backward_, weights_pass, x, by_weights.src_desc())},
           {DNNL_ARG_DIFF_DST, reordered(backward_, weights_pass, dy, by_weights.diff_dst_desc())},
           {DNNL_ARG_DIFF_WEIGHTS, dw},
           {DNNL_ARG_DIFF_BIAS, db}});
      if (first) return;
      const convolution_backward_data::primitive_desc by_data(
          {direct, any(in), any(kernel), any(out), strides, pads, pads}, engine_, forward);
      const std::string data_pass = name + "/input_gradient";
      const memory w_there = reordered(backward_, data_pass, w, by_data.weights_desc());
      const memory dy_there = reordered(backward_, data_pass, dy, by_data.diff_dst_desc());
      add_into(data_pass, convolution_backward_data(by_data),
               {{DNNL_ARG_DIFF_DST, dy_there}, {DNNL_ARG_WEIGHTS, w_there}},
               by_data.diff_src_desc(), dx);
    });
    updates(w, dw, b, db);
    first_ = false;
    return *this;
  }

  Step& dense(std::int64_t units, bool relu) {
    using namespace dnnl;
    const std::string name = numbered("dense");
    const memory x = y_, dx = dy_;
    const Dims in = x.get_desc().dims();
    Dims kernel = in;
    kernel[0] = units;
    const memory::desc bias = vector_of(units), out({samples_, units}, f32, Format::nc);
    // After a convolution the input gradient wants the weights in another layout than forward does.
    // Copying them in each step was the quickest of three ways: forward in the other layout takes
    // two to three times as long, and convolutions that leave channels last, for plain matrix
    // products, have no quick implementation.
    const inner_product_forward::primitive_desc forward(
        {prop_kind::forward_training, x.get_desc(), any(kernel), bias, out}, attributes(relu),
        engine_);
    const inner_product_backward_data::primitive_desc by_data({x.get_desc(), any(kernel), out},
                                                              engine_, forward);
    y_ = make(out);
    dy_ = make(out);
    const memory y = y_, dy = dy_, w = make(forward.weights_desc()), b = make(bias),
                 db = make(bias);
    add(forward_, name + "/forward", inner_product_forward(forward),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, y}});

    const inner_product_backward_weights::primitive_desc by_weights(
        {x.get_desc(), any(kernel), bias, out}, engine_, forward);
    const memory dw = make(by_weights.diff_weights_desc());
    const bool first = first_;
    backward_makers_.push_back([=, this] {
      const std::string weights_pass = name + "/weight_gradient";
      if (relu) add_relu_gradient(weights_pass, y, dy);
      add(backward_, weights_pass, inner_product_backward_weights(by_weights),
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_DIFF_WEIGHTS, dw},
           {DNNL_ARG_DIFF_BIAS, db}});
      if (first) return;
      const std::string data_pass = name + "/input_gradient";
      add(backward_, data_pass, inner_product_backward_data(by_data),
          {{DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_WEIGHTS, reordered(backward_, data_pass, w, by_data.weights_desc())},
           {DNNL_ARG_DIFF_SRC, dx}});
    });
    updates(w, dw, b, db);
    first_ = false;
    return *this;
  }

  /// Batch normalisation with ReLU.
  Step& normalization() {
    using namespace dnnl;
    const std::string name = numbered("batch_normalization");
    const memory x = y_, dx = dy_;
    const auto flags = normalization_flags::use_scale_shift | normalization_flags::fuse_norm_relu;
    constexpr float epsilon = 1e-3f;
    const batch_normalization_forward::primitive_desc forward(
        {prop_kind::forward_training, x.get_desc(), epsilon, flags}, engine_);
    const batch_normalization_backward::primitive_desc backward(
        {prop_kind::backward, x.get_desc(), x.get_desc(), epsilon, flags}, engine_, forward);
    y_ = make(forward.dst_desc());
    dy_ = make(forward.dst_desc());
    const memory y = y_, dy = dy_, mean = make(forward.mean_desc()),
                 variance = make(forward.variance_desc());
    const memory workspace = make(forward.workspace_desc());
    const memory::desc scale_shift({2, x.get_desc().dims()[1]}, f32, Format::nc);
    const memory w = make(scale_shift), dw = make(scale_shift);
    add(forward_, name + "/forward", batch_normalization_forward(forward),
        {{DNNL_ARG_SRC, x},
         {DNNL_ARG_SCALE_SHIFT, w},
         {DNNL_ARG_MEAN, mean},
         {DNNL_ARG_VARIANCE, variance},
         {DNNL_ARG_WORKSPACE, workspace},
         {DNNL_ARG_DST, y}});
    backward_makers_.push_back([=, this] {
      add(backward_, name + "/backward", batch_normalization_backward(backward),
          {{DNNL_ARG_SRC, x},
           {DNNL_ARG_MEAN, mean},
           {DNNL_ARG_VARIANCE, variance},
           {DNNL_ARG_SCALE_SHIFT, w},
           {DNNL_ARG_WORKSPACE, workspace},
           {DNNL_ARG_DIFF_DST, dy},
           {DNNL_ARG_DIFF_SRC, dx},
           {DNNL_ARG_DIFF_SCALE_SHIFT, dw}});
    });
    add_update(w, dw);
    return *this;
  }

  /// 2 x 2.
  Step& max_pooling() {
    using namespace dnnl;
    const std::string name = numbered("max_pooling2d");
    const memory x = y_, dx = dy_;
    const Dims in = x.get_desc().dims();
    const Dims out{in[0], in[1], in[2] / 2, in[3] / 2}, window{2, 2}, pads{0, 0};
    const pooling_forward::primitive_desc forward(
        {prop_kind::forward_training, algorithm::pooling_max, x.get_desc(), any(out), window,
         window, pads, pads},
        engine_);
    const pooling_backward::primitive_desc backward(
        {algorithm::pooling_max, x.get_desc(), forward.dst_desc(), window, window, pads, pads},
        engine_, forward);
    y_ = make(forward.dst_desc());
    dy_ = make(forward.dst_desc());
    const memory y = y_, dy = dy_, workspace = make(forward.workspace_desc());
    add(forward_, name + "/forward", pooling_forward(forward),
        {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}, {DNNL_ARG_WORKSPACE, workspace}});
    backward_makers_.push_back([=, this] {
      add(backward_, name + "/backward", pooling_backward(backward),
          {{DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dx}, {DNNL_ARG_WORKSPACE, workspace}});
    });
    return *this;
  }

  Step& finish() {
    for (; !backward_makers_.empty(); backward_makers_.pop_back()) backward_makers_.back()();
    return *this;
  }

  void run() {
    for (const Actions* list : {&forward_, &backward_, &update_})
      for (const Action& action : *list) action.run(stream_);
    stream_.wait();
  }

  /// "conv2d/forward", ..., in the order of a step.
  [[nodiscard]] std::vector<std::string> passes() const {
    std::vector<std::string> names;
    for (const Actions* list : {&forward_, &backward_, &update_})
      for (const Action& action : *list)
        if (names.empty() || names.back() != action.pass) names.push_back(action.pass);
    return names;
  }
  void run_pass(const std::string& pass) {
    for (const Actions* list : {&forward_, &backward_, &update_})
      for (const Action& action : *list)
        if (action.pass == pass) action.run(stream_);
    stream_.wait();
  }

 private:
  using Arguments = std::unordered_map<int, memory>;
  struct Action {
    std::string pass;
    std::function<void(dnnl::stream&)> run;
  };
  using Actions = std::vector<Action>;
  static constexpr const char* update_pass = "sgd/update";

  std::string numbered(const std::string& name) {
    const int before = seen_[name]++;
    return before == 0 ? name : name + "_" + std::to_string(before);
  }

  static dnnl::primitive_attr attributes(bool relu) {
    dnnl::primitive_attr result;
    if (relu) {
      dnnl::post_ops operations;
      operations.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
      result.set_post_ops(operations);
    }
    return result;
  }

  /// Memory with small random numbers, at first.
  memory make(const memory::desc& desc) {
    memory result(desc, engine_);
    if (desc.data_type() != f32) return result;
    auto* values = static_cast<float*>(result.get_data_handle());
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i) {
      state = state * 1664525u + 1013904223u;
      values[i] = 0.05f * (static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
    }
    return result;
  }

  static void add(Actions& actions, const std::string& pass, const dnnl::primitive& primitive,
                  Arguments arguments) {
    actions.push_back({pass, [primitive, arguments = std::move(arguments)](dnnl::stream& stream) {
                         primitive.execute(stream, arguments);
                       }});
  }

  /// `from`, or a copy in another layout, made anew in each step.
  memory reordered(Actions& actions, const std::string& pass, const memory& from,
                   const memory::desc& desc) {
    if (from.get_desc() == desc) return from;
    const memory to = make(desc);
    add(actions, pass, dnnl::reorder(from, to), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    return to;
  }

  /// A backward primitive whose result in the layout `desc` ends up in `dx`.
  void add_into(const std::string& pass, const dnnl::primitive& primitive, Arguments arguments,
                const memory::desc& desc, const memory& dx) {
    const bool same = dx.get_desc() == desc;
    const memory result = same ? dx : make(desc);
    arguments.insert({DNNL_ARG_DIFF_SRC, result});
    add(backward_, pass, primitive, std::move(arguments));
    if (!same)
      add(backward_, pass, dnnl::reorder(result, dx), {{DNNL_ARG_FROM, result}, {DNNL_ARG_TO, dx}});
  }

  void add_relu_gradient(const std::string& pass, const memory& y, const memory& dy) {
    using namespace dnnl;
    const auto relu = algorithm::eltwise_relu_use_dst_for_bwd;
    const eltwise_forward::primitive_desc forward(
        {prop_kind::forward_training, relu, y.get_desc(), 0.0f, 0.0f}, engine_);
    const eltwise_backward::primitive_desc backward({relu, dy.get_desc(), y.get_desc(), 0.0f, 0.0f},
                                                    engine_, forward);
    add(backward_, pass, eltwise_backward(backward),
        {{DNNL_ARG_DST, y}, {DNNL_ARG_DIFF_DST, dy}, {DNNL_ARG_DIFF_SRC, dy}});
  }

  /// SGD; a learning rate so small that no number grows in a long run. A loop of one's own takes a
  /// third of the time of dnnl::sum.
  void add_update(const memory& weights, const memory& gradient) {
    const memory same = reordered(update_, update_pass, gradient, weights.get_desc());
    update_.push_back({update_pass, [weights, same](dnnl::stream&) {
                         auto* w = static_cast<float*>(weights.get_data_handle());
                         const auto* g = static_cast<const float*>(same.get_data_handle());
                         const std::size_t count = weights.get_desc().get_size() / sizeof(float);
#pragma omp parallel for simd schedule(static) if (count > 10'000)
                         for (std::size_t i = 0; i < count; ++i) w[i] -= 1e-6f * g[i];
                       }});
  }
  void updates(const memory& w, const memory& dw, const memory& b, const memory& db) {
    add_update(w, dw);
    add_update(b, db);
  }

  std::int64_t samples_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  memory y_, dy_;
  bool first_ = true;
  std::map<std::string, int> seen_;
  std::vector<std::function<void()>> backward_makers_;
  Actions forward_, backward_, update_;
};

std::unique_ptr<Step> make_step(const std::string& model) {
  std::unique_ptr<Step> step;
  if (model == "cnn") {
    step = std::make_unique<Step>(64, Dims{1, 28, 28}, Format::nchw);
    step->convolution(32, 0, true).dense(128, true).dense(10, false).finish();
  } else if (model == "mlp") {
    step = std::make_unique<Step>(128, Dims{784}, Format::nc);
    step->dense(512, true).dense(512, true).dense(10, false).finish();
  } else {
    step = std::make_unique<Step>(64, Dims{3, 32, 32}, Format::nchw);
    for (const std::int64_t filters : {32, 64, 128})
      step->convolution(filters, 1, false).normalization().max_pooling();
    step->dense(10, false).finish();
  }
  step->run();
  return step;
}

void add(const std::string& name, bool one_thread, const std::function<void()>& run) {
  auto* registered = benchmark::RegisterBenchmark(name.c_str(), [run](benchmark::State& state) {
                       run();
                       for (auto _ : state) run();
                     })->Unit(benchmark::kMillisecond);
  if (!one_thread) registered->UseRealTime();
}

}  // namespace

int main(int argc, char** argv) {
  const char* threads = std::getenv("OMP_NUM_THREADS");
  if (threads == nullptr) {
    std::fputs("benchmark_onednn: set OMP_NUM_THREADS\n", stderr);
    return 2;
  }
  const bool one_thread = std::string(threads) == "1";
  for (const std::string model : {"cnn", "mlp", "cifar"}) {
    const std::shared_ptr<Step> step = make_step(model);
    add("step/" + model + "/" + threads, one_thread, [step] { step->run(); });
    if (!one_thread) continue;
    for (const std::string& pass : step->passes())
      add("layer/" + model + "/" + pass, true, [step, pass] { step->run_pass(pass); });
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const dnnl_version_t* version = dnnl_version();
  benchmark::AddCustomContext("oneDNN", std::to_string(version->major) + "." +
                                            std::to_string(version->minor) + "." +
                                            std::to_string(version->patch));
  benchmark::RunSpecifiedBenchmarks();
}

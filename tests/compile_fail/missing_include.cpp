// with quotes
// expect-error: (incomplete type.*JSONLogger|JSONLogger.*incomplete type)
// expect-nearby: JSONLogger; .*#include <lockstep/callbacks/json_logger.hpp>
// expect-error 2: deleted function
// expect-nearby 2: from_image_folder.*#include <lockstep/datasets/image_folder.hpp>
// expect-error 3: deleted function
// expect-nearby 3: from_tfrecords.*#include <lockstep/extra/records.hpp>
// expect-error 4: deleted function
// expect-nearby 4: export_onnx.*#include <lockstep/extra/onnx.hpp>
#include <lockstep/lockstep.hpp>
#ifndef LOCKSTEP_COMPILE_FAIL
#include <lockstep/callbacks.hpp>
#include <lockstep/datasets.hpp>
#include <lockstep/extra/onnx.hpp>
#include <lockstep/extra/records.hpp>
#endif

namespace ls = lockstep;

using Net = ls::Sequential<ls::Input<4>, ls::Dense<10>>;

int main() {
#if !defined(LOCKSTEP_COMPILE_FAIL) || LOCKSTEP_COMPILE_FAIL == 1
  const auto logger = ls::JSONLogger({.filename = "log.json"});
#endif
  ls::OneDeviceStrategy strategy;
  auto model = ls::compile<Net>(strategy, ls::MeanSquaredError{}, ls::SGD{});
#if !defined(LOCKSTEP_COMPILE_FAIL)
  const auto decode = [](auto&&...) { return ls::DecodedImage{}; };
  auto images = ls::from_image_folder("photos", {}, decode);
  auto records = ls::from_tfrecords({"train.tfrecord"}, ls::TFRecordFeatures{});
#elif LOCKSTEP_COMPILE_FAIL == 2
  auto images = ls::from_image_folder("photos", {.seed = 1});
#elif LOCKSTEP_COMPILE_FAIL == 3
  auto records = ls::from_tfrecords({"train.tfrecord"}, {.features = {}});
#endif
#if !defined(LOCKSTEP_COMPILE_FAIL) || LOCKSTEP_COMPILE_FAIL == 4
  ls::export_onnx(model, "model.onnx");
#endif
}

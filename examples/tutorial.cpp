// TensorFlow's tutorial "Multi-worker training with Keras", in C++: run it alone, or as `tutorial
// --workers 2`.
#include <lockstep/lockstep.hpp>
namespace ls = lockstep;

using Cnn = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10>>;
static_assert(Cnn::parameter_count == 2'770'634);

int main(int argc, char** argv) {
  return ls::run(
      argc, argv, [] {  // errors become messages and exit codes; --workers N starts N of us
        ls::MultiWorkerMirroredStrategy<ls::Ring<ls::Tcp>>
            strategy;  // reads TF_CONFIG; alone when it is unset
        auto [images, labels] =
            ls::make_synthetic_digits().train;  // or ls::load_mnist(folder).train
        auto train = ls::from_tensor_slices(images / 255.0f, labels)
                         .shuffle(60'000)
                         .repeat()
                         .batch(64 * strategy.num_workers());
        auto model =
            ls::compile<Cnn>(strategy, ls::SparseCategoricalCrossentropy{.from_logits = true},
                             ls::SGD{.learning_rate = 0.001}, ls::Accuracy{});
        model.fit(train, {.epochs = 3, .steps_per_epoch = 70},
                  ls::BackupAndRestore{"tutorial_backup"});
      });
}

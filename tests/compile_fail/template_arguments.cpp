// Arguments of the wrong kind, of which no static_assert can speak.
// expect-error: the_activation_stands_before_the_options|argument for template type parameter must be a type
// expect-error 2: the_activation_stands_before_the_options|argument for template type parameter must be a type
// expect-error 3: the_options_stand_before_the_activation|argument for non-type template parameter must be an expression
// expect-error 4: each_layer_has_its_angle_brackets|LayerNormalization.* requires template arguments
// expect-error 5: each_layer_has_its_angle_brackets|MaxPooling2D.* requires template arguments
// expect-error 6: no activation function; use ls::ReLU, ls::Linear, ...; ls::Softmax is a layer: put it behind
// expect-within 6: 4000
#include <lockstep/local.hpp>

namespace ls = lockstep;

constexpr ls::DenseOptions no_bias{.use_bias = false};

#if LOCKSTEP_COMPILE_FAIL == 1
using Net = ls::Sequential<ls::Input<4>, ls::Dense<2, no_bias, ls::ReLU>>;
#elif LOCKSTEP_COMPILE_FAIL == 2
using Net =
    ls::Sequential<ls::Input<8, 8, 1>, ls::Conv2D<2, 3, ls::Conv2DOptions{.stride = 2}, ls::ReLU>>;
#elif LOCKSTEP_COMPILE_FAIL == 3
using Net = ls::Sequential<ls::Input<8>, ls::ToSequence, ls::LSTM<2, ls::ReLU, ls::LSTMOptions{}>>;
#elif LOCKSTEP_COMPILE_FAIL == 4
using Net = ls::Sequential<ls::Input<4>, ls::LayerNormalization, ls::Dense<2>>;
#elif LOCKSTEP_COMPILE_FAIL == 5
using Net = ls::Sequential<ls::Input<8, 8, 1>, ls::Residual<ls::MaxPooling2D>, ls::Flatten>;
#elif LOCKSTEP_COMPILE_FAIL == 6
using Net = ls::Sequential<ls::Input<28, 28>, ls::Reshape<28, 28, 1>, ls::Conv2D<32, 3, ls::ReLU>,
                           ls::Flatten, ls::Dense<128, ls::ReLU>, ls::Dense<10, ls::Softmax>>;
#else
using Net = ls::Sequential<ls::Input<4>, ls::LayerNormalization<>, ls::Dense<2, ls::ReLU, no_bias>>;
#endif

int main() { auto model = ls::compile<Net>(ls::MeanSquaredError{}, ls::SGD{}); }

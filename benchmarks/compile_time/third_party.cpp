// What the third-party headers cost without lockstep: each is used about as much as a training
// program needs it.

#include <array>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <Eigen/Core>
#include <asio.hpp>
#include <cereal/archives/portable_binary.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/vector.hpp>
#include <nlohmann/json.hpp>

int main(int argc, char**) {
  const Eigen::MatrixXf a = Eigen::MatrixXf::Random(argc * 64, 32),
                        b = Eigen::MatrixXf::Random(32, 16);
  const Eigen::MatrixXf c = (a * b).cwiseMax(0.0f);

  const auto json =
      nlohmann::json::parse(R"({"cluster": {"worker": ["127.0.0.1:0"]}, "task": {"index": 0}})");
  const auto workers = json.at("cluster").at("worker").get<std::vector<std::string>>();

  std::stringstream stream;
  cereal::PortableBinaryOutputArchive{stream}(workers,
                                              std::vector<float>(c.data(), c.data() + c.size()));

  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::make_address("127.0.0.1"), 0});
  asio::ip::tcp::socket client(context), server(context);
  std::array<float, 4> received{};
  acceptor.async_accept(server, [&](asio::error_code) {
    asio::async_read(server, asio::buffer(received), [](asio::error_code, std::size_t) {});
  });
  client.connect(acceptor.local_endpoint());
  asio::write(client, asio::buffer(c.data(), sizeof received));
  context.run();
  std::cout << received[0] + c.sum() << ' ' << stream.str().size() << '\n';
}

#include "lockstep/callbacks/metrics_server.hpp"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "callbacks/http_client.hpp"
#include "lockstep/core/error.hpp"
#include "support/model_testing.hpp"

namespace ls = lockstep;
using namespace std::chrono_literals;
using lockstep_test::contains;
using lockstep_test::http_ask;
using lockstep_test::http_get;
using lockstep_test::HttpClient;
using lockstep_test::message_of;
using ls::detail::MetricsServer;

namespace {

constexpr const char* here = "127.0.0.1";

MetricsServer::Pages pages(const std::string& metrics = "a 1\n", const std::string& ailment = "") {
  return {[metrics] { return metrics; }, [ailment] { return ailment; }};
}

/// A header's value and the text behind the headers.
std::string value_of(const std::string& answer, const std::string& header) {
  const std::size_t at = answer.find("\r\n" + header + ": ") + header.size() + 4;
  return answer.substr(at, answer.find("\r\n", at) - at);
}
std::string text_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

}  // namespace

TEST_CASE("MetricsServer: /metrics is made anew for each request, with the type and the length") {
  std::atomic<int> asked = 0;
  const MetricsServer server(
      here, 0, 1,
      {[&] { return "asked " + std::to_string(++asked) + "\n"; }, [] { return std::string(); }});
  REQUIRE(server.port() > 0);
  for (const char* const path : {"/metrics", "/metrics?name[]=asked"}) {
    const std::string answer = http_get(server.port(), path);
    CHECK(answer.starts_with("HTTP/1.0 200 OK\r\n"));
    CHECK(text_of(answer) == "asked " + std::to_string(asked) + "\n");
    CHECK(value_of(answer, "Content-Length") == std::to_string(text_of(answer).size()));
    CHECK(value_of(answer, "Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  }
  CHECK(asked == 2);
}

TEST_CASE("MetricsServer: /healthz is 200 where all is well, and else 503 with the ailment") {
  const MetricsServer well(here, 0, 1, pages());
  CHECK(text_of(http_get(well.port(), "/healthz")) == "ok\n");
  const MetricsServer ill(here, 0, 1, pages("", "no step for 7 s"));
  const std::string answer = http_get(ill.port(), "/healthz");
  CHECK(answer.starts_with("HTTP/1.0 503 Service Unavailable\r\n"));
  CHECK(text_of(answer) == "no step for 7 s\n");
}

TEST_CASE("MetricsServer: other requests are answered, and what is no request") {
  const MetricsServer server(here, 0, 1, pages());
  const int port = server.port();
  CHECK(http_get(port, "/").starts_with("HTTP/1.0 404 Not Found\r\n"));
  CHECK(http_get(port, "/healthz?verbose=1").starts_with("HTTP/1.0 200 OK\r\n"));
  CHECK(http_ask(port, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.0 405 Method Not"));
  CHECK(value_of(http_ask(port, "PUT / HTTP/1.1\n\n"), "Allow") == "GET, HEAD");
  for (const char* const none : {"hello\r\n\r\n", "GET /metrics\r\n\r\n", "\r\n\r\n"})
    CHECK(http_ask(port, none).starts_with("HTTP/1.0 400 Bad Request\r\n"));
  const std::string head = http_ask(port, "HEAD /metrics HTTP/1.0\r\n\r\n");
  CHECK(head.starts_with("HTTP/1.0 200 OK\r\n"));
  CHECK(value_of(head, "Content-Length") == "4");
  CHECK(text_of(head).empty());
  CHECK(http_ask(port, "GET /" + std::string(5000, 'x')).starts_with("HTTP/1.0 431 "));
}

TEST_CASE(
    "MetricsServer: a request may come in pieces, and an answer be longer than a socket's "
    "buffer") {
  const std::string page(std::size_t{8} << 20, 'x');
  const MetricsServer server(here, 0, 1, pages(page));
  const HttpClient client(server.port());
  for (const char* const piece : {"GET /met", "rics HT", "TP/1.0\r\n\r", "\n"}) {
    client.send(piece);
    std::this_thread::sleep_for(5ms);
  }
  CHECK(text_of(client.all()) == page);
}

TEST_CASE("MetricsServer: a page that throws is an answer, and the next one is served") {
  std::atomic<bool> fails = true;
  const MetricsServer server(here, 0, 1,
                             {[&]() -> std::string {
                                if (fails) throw std::runtime_error("out of ink");
                                return "a 1\n";
                              },
                              [] { return std::string(); }});
  const std::string answer = http_get(server.port(), "/metrics");
  CHECK(answer.starts_with("HTTP/1.0 500 Internal Server Error\r\n"));
  CHECK(text_of(answer) == "out of ink\n");
  fails = false;
  CHECK(text_of(http_get(server.port(), "/metrics")) == "a 1\n");
}

TEST_CASE(
    "MetricsServer: silent clients do not keep others out, and the end does not wait for "
    "them") {
  std::vector<std::unique_ptr<HttpClient>> silent;
  auto server = std::make_unique<MetricsServer>(here, 0, 1, pages());
  silent.reserve(2 * MetricsServer::most_connections);
  for (int i = 0; i < 2 * MetricsServer::most_connections; ++i)
    silent.push_back(std::make_unique<HttpClient>(server->port()));
  silent.resize(MetricsServer::most_connections - 1);  // and those in the queue go away
  CHECK(contains(http_get(server->port(), "/healthz"), "ok\n"));
  const auto begin = std::chrono::steady_clock::now();
  const int port = server->port();
  server.reset();
  CHECK(std::chrono::steady_clock::now() - begin < MetricsServer::time_limit / 2);
  CHECK_FALSE(HttpClient(port).is_connected());  // the server has closed its socket
  CHECK(silent.front()->all().empty());          // and the connections are closed
}

TEST_CASE("MetricsServer: a taken port is passed over, for as many as were given") {
  const MetricsServer first(here, 0, 1, pages());
  const std::string taken = std::to_string(first.port());
  CHECK(contains(
      message_of<ls::Error>([&] { const MetricsServer second(here, first.port(), 1, pages()); }),
      "cannot listen on 127.0.0.1, port " + taken + ": "));
  try {
    const MetricsServer second(here, first.port(), 4, pages());
    CHECK(second.port() > first.port());
    CHECK(second.port() < first.port() + 4);
  } catch (const ls::Error& error) {  // other programs have them
    CHECK(contains(error.what(), "port " + taken + " to "));
  }
}

TEST_CASE("MetricsServer: an address that is no IP address is refused") {
  for (const char* const address : {"localhost", "", "127.0.0.256"})
    CHECK(contains(message_of<ls::ConfigurationError>(
                       [&] { const MetricsServer server(address, 0, 1, pages()); }),
                   "' is no IP address; expected one such as 127.0.0.1"));
}

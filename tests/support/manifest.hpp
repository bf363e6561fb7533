// What tests read in a manifest of examples/kubernetes: as much YAML as these use.
#pragma once

#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/source_path.hpp"

namespace lockstep_test {

class Manifest {
 public:
  /// A file of examples/kubernetes.
  explicit Manifest(const std::string& name) {
    const std::string path = source_path("examples/kubernetes/" + name);
    std::ifstream file(path);
    REQUIRE_MESSAGE(file, path);
    for (std::string line; std::getline(file, line);) {
      if (const auto comment = line.find('#'); comment != std::string::npos) line.erase(comment);
      const auto begin = line.find_first_not_of(" -");
      const auto colon = line.find(": ");
      const auto end = line.find_last_not_of(' ');
      if (begin == std::string::npos || colon == std::string::npos || end <= colon + 1) continue;
      std::string value = line.substr(colon + 2, end - colon - 1);
      if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
        value = value.substr(1, value.size() - 2);
      lines_.emplace_back(line.substr(begin, colon - begin), value);
    }
  }

  /// The first value of a key; the test fails if there is none.
  [[nodiscard]] std::string text(const std::string& key) const {
    for (const auto& [name, value] : lines_)
      if (name == key) return value;
    FAIL("the manifest has no " << key);
    return {};
  }
  [[nodiscard]] int number(const std::string& key) const { return std::stoi(text(key)); }
  /// Those of all its places.
  [[nodiscard]] std::vector<int> numbers(const std::string& key) const {
    std::vector<int> all;
    for (const auto& [name, value] : lines_)
      if (name == key) all.push_back(std::stoi(value));
    return all;
  }

  /// The variables under `env`. `fields` are the pod's, by their paths; $(NAME) stands for an
  /// earlier variable.
  [[nodiscard]] std::map<std::string, std::string> variables(
      const std::map<std::string, std::string>& fields) const {
    std::map<std::string, std::string> all;
    std::string last;
    for (const auto& [name, value] : lines_) {
      if (name == "name") {
        last = value;
      } else if (name == "value") {
        std::string text = value;
        for (const auto& [other, known] : all)
          if (const auto at = text.find("$(" + other + ")"); at != std::string::npos)
            text.replace(at, other.size() + 3, known);
        all[last] = text;
      } else if (name == "fieldPath") {
        const auto field = fields.find(value);
        if (field == fields.end()) throw std::runtime_error("the pod has no field " + value);
        all[last] = field->second;
      }
    }
    return all;
  }

 private:
  std::vector<std::pair<std::string, std::string>> lines_;
};

}  // namespace lockstep_test

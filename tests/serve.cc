// Runs every signature of an export as TensorFlow Serving does, without Python.
//
//   serve MODEL IDS OP_LIBRARY...  < lines of "source TAB target"
//
// IDS are rows of source ids, as in "5,6,3;7,3". For each signature and output it prints a line:
// the two names and the values, with tabs between.

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"
#include "tensorflow/cc/saved_model/loader.h"
#include "tensorflow/core/framework/tensor.h"

namespace tf = tensorflow;

tf::Tensor Strings(const std::vector<std::string>& values) {
  tf::Tensor tensor(tf::DT_STRING, tf::TensorShape({static_cast<int64_t>(values.size())}));
  for (size_t i = 0; i < values.size(); ++i) tensor.vec<tf::tstring>()(i) = values[i];
  return tensor;
}

std::pair<tf::Tensor, tf::Tensor> Ids(const std::string& text) {
  std::vector<std::vector<int>> rows;
  size_t longest = 0;
  std::stringstream all(text);
  for (std::string row; std::getline(all, row, ';');) {
    rows.emplace_back();
    std::stringstream one(row);
    for (std::string id; std::getline(one, id, ',');) rows.back().push_back(std::stoi(id));
    longest = std::max(longest, rows.back().size());
  }
  const int64_t count = rows.size();
  tf::Tensor ids(tf::DT_INT32, tf::TensorShape({count, static_cast<int64_t>(longest)}));
  tf::Tensor lengths(tf::DT_INT32, tf::TensorShape({count}));
  for (int64_t i = 0; i < count; ++i) {
    lengths.vec<int>()(i) = rows[i].size();
    for (size_t j = 0; j < longest; ++j) {
      // As a server that batches pads: with the tensor's first value.
      ids.matrix<int>()(i, j) = j < rows[i].size() ? rows[i][j] : rows[0][0];
    }
  }
  return {ids, lengths};
}

void Print(const std::string& signature, const std::string& output, const tf::Tensor& tensor) {
  std::cout << signature << '\t' << output;
  for (int64_t i = 0; i < tensor.NumElements(); ++i) {
    std::cout << '\t';
    if (tensor.dtype() == tf::DT_STRING) std::cout << tensor.flat<tf::tstring>()(i);
    if (tensor.dtype() == tf::DT_INT32) std::cout << tensor.flat<int>()(i);
    if (tensor.dtype() == tf::DT_FLOAT) std::cout << tensor.flat<float>()(i);
  }
  std::cout << '\n';
}

int main(int argc, char** argv) {
  for (int i = 3; i < argc; ++i) {
    TF_Status* status = TF_NewStatus();
    TF_LoadLibrary(argv[i], status);
    if (TF_GetCode(status) != TF_OK) {
      std::cerr << TF_Message(status) << '\n';
      return 1;
    }
    TF_DeleteStatus(status);
  }
  std::vector<std::string> sources, targets;
  for (std::string line; std::getline(std::cin, line);) {
    const size_t tab = line.find('\t');
    sources.push_back(line.substr(0, tab));
    targets.push_back(line.substr(tab + 1));
  }
  const auto [ids, lengths] = Ids(argv[2]);
  const std::map<std::string, tf::Tensor> inputs = {{"source", Strings(sources)},
                                                    {"target", Strings(targets)},
                                                    {"source_ids", ids},
                                                    {"source_lengths", lengths}};
  tf::SavedModelBundle bundle;
  tf::Status status = tf::LoadSavedModel(tf::SessionOptions(), tf::RunOptions(), argv[1],
                                         {"serve"}, &bundle);
  if (!status.ok()) {
    std::cerr << status << '\n';
    return 1;
  }
  for (const auto& [name, signature] : bundle.GetSignatures()) {
    if (name.rfind("__", 0) == 0) continue;  // __saved_model_init_op
    std::vector<std::pair<std::string, tf::Tensor>> feeds;
    for (const auto& [key, info] : signature.inputs()) feeds.push_back({info.name(), inputs.at(key)});
    std::vector<std::string> keys, fetches;
    for (const auto& [key, info] : signature.outputs()) {
      keys.push_back(key);
      fetches.push_back(info.name());
    }
    std::vector<tf::Tensor> outputs;
    status = bundle.GetSession()->Run(feeds, fetches, {}, &outputs);
    if (!status.ok()) {
      std::cerr << name << ": " << status << '\n';
      return 1;
    }
    for (size_t i = 0; i < keys.size(); ++i) Print(name, keys[i], outputs[i]);
  }
  return 0;
}

// A search as Python sees it.

#pragma once

#include "bind_requests.h"
#include "search.h"

namespace fastdec {

// A search, the reader of its requests, and a function that makes similar searches.
struct CheckedSearch {
  CheckedSearch(const MakeSearch &make, const Models &models, const Rules &rules,
                int64_t n_mapped)
      : make(std::make_shared<const MakeSearch>(make)),
        search(make()),
        requests(models, rules, search->verifies_drafts(), n_mapped) {}

  const std::shared_ptr<const MakeSearch> make;
  const std::unique_ptr<Search> search;
  const RequestReader requests;
};

// Sentences that are done, in arrays.
struct Results {
  explicit Results(const std::vector<Result> &results);

  std::vector<int64_t> ids, steps, expansions;  // of each sentence
  std::vector<std::string> errors;
  std::vector<std::vector<int64_t>> blocks;
  std::vector<int64_t> n_hypotheses;
  std::vector<int64_t> lengths;  // of each hypothesis
  std::vector<double> totals;
  Array<int64_t> tokens;  // of all hypotheses
  Array<float> scores;
};

}  // namespace fastdec

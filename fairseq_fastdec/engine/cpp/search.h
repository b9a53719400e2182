// What all searches with one hypothesis for each sentence share.

#pragma once

#include "loop.h"

namespace fastdec {

// A search says what each row is fed, and what stays of it.
class Search : public Loop<Request, Translation, BlockCounts> {
 public:
  // capacity: the most sentences that are decoded at once
  Search(Models models, Rules rules, int64_t n_best, int64_t capacity, Team team);

 protected:
  // Writes `feed`.
  virtual void propose() = 0;
  // Whether p_1's score of a proposal is needed, and not only whether it is the best.
  virtual bool asks() const { return false; }
  // Keeps what the answers allow of a row's block; returns whether the sentence has ended. Rows
  // are kept from the last to the first.
  virtual bool keep(int64_t row) = 0;
  // A row comes, or goes: then the last one takes its place.
  virtual void joined(int64_t) {}
  virtual void left(int64_t) {}

  // The opening of a block: the tokens that are fed to a row that is new.
  std::vector<int64_t> opening_of(const Row &row) const;
  // Appends tokens of a row's block [first, last) with their scores, up to an end of sentence;
  // returns how many.
  //   path: their places in a tree; null: they lie side by side
  int64_t append_block(int64_t row, int64_t first, int64_t last, const int64_t *path);
  // Appends a token; returns whether it ends the sentence.
  bool append(Row &row, int64_t token, float score);
  int64_t place(int64_t row, int64_t number, const int64_t *path) const {
    return feed.begins[row] + (path ? path[number] : number);
  }

  std::vector<Row> rows;
  Feed feed;
  Answers answers;

 private:
  int64_t n_under_way() const override { return int64_t(rows.size()); }
  std::vector<const Request *> under_way() const override;
  int64_t n_due() override { return capacity - int64_t(rows.size()); }
  void begin(Request request) override;
  void step() override;
  bool drop(int64_t id) override;
  // What restricts the answers behind each token, and which scores are asked for.
  void restrict();
  void leave(int64_t row);

  const int64_t capacity;
};

}  // namespace fastdec

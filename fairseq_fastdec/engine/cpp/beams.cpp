#include "beams.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace fastdec {

namespace {

// The attention by which the successors of an entry and of those that it continues were chosen. All
// entries of the beam have been expanded.
std::vector<float> attention_along(const Beam &beam, int64_t entry) {
  std::vector<int64_t> path;
  for (; entry >= 0; entry = beam.entries[entry].parent) path.push_back(entry);
  const auto n = int64_t(beam.attention.size() / beam.entries.size());
  std::vector<float> found;
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const auto from = beam.attention.begin() + *at * n;
    found.insert(found.end(), from, from + n);
  }
  return found;
}

}  // namespace

int64_t Beams::begin(int64_t bos, std::shared_ptr<const Constraints> constraints) {
  if (free_slots.empty()) {
    free_slots.push_back(int64_t(beams.size()));
    beams.emplace_back();
  }
  const int64_t slot = free_slots.back();
  free_slots.pop_back();
  beams[slot] = {};
  beams[slot].entries.push_back({bos, -1, 0});
  if (constraints) beams[slot].progress.push_back(constraints->begin());
  beams[slot].constraints = std::move(constraints);
  return slot;
}

void Beams::focus(const std::vector<int64_t> &slots) {
  in_focus = slots;
  starts = {0};
  row_slots.clear(), row_entries.clear(), fed_tokens.clear(), totals.clear();
  for (int64_t slot : slots) {
    const Beam &beam = beams[slot];
    for (int64_t entry = beam.first; entry < int64_t(beam.entries.size()); ++entry) {
      row_slots.push_back(slot), row_entries.push_back(entry);
      fed_tokens.push_back(beam.entries[entry].token), totals.push_back(beam.entries[entry].score);
    }
    starts.push_back(int64_t(totals.size()));
  }
}

std::vector<int64_t> Beams::context(int64_t row) const {
  const Beam &beam = beams[row_slots[row]];
  std::vector<int64_t> tokens;
  for (int64_t entry = row_entries[row]; entry >= 0; entry = beam.entries[entry].parent)
    tokens.push_back(beam.entries[entry].token);
  std::reverse(tokens.begin(), tokens.end());
  return tokens;
}

bool Beams::want(int64_t row, const Request &sentence, Limits &limits) const {
  const Beam &beam = beams[row_slots[row]];
  if (!beam.constraints) return false;
  const Progress &progress = progress_of(beam, row_entries[row]);
  if (!beam.constraints->are_met(progress)) limits.ends.forbid_end(row);
  const int64_t due = beam.constraints->due_token(progress, beam.length, sentence.max_len);
  limits.some_wanted = true;
  if (due < 0) {
    limits.wanted[row] = beam.constraints->next_tokens(progress);
    return false;
  }
  limits.wanted[row] = {due};
  limits.only[row] = due, limits.some_only = true;
  return true;
}

std::vector<Extension> Beams::candidates_of(int64_t number, const Extensions &found) const {
  const Beam &beam = beams[in_focus[number]];
  std::vector<Extension> candidates;
  auto waiting = beam.waiting.begin();
  const auto take_waiting = [&] {
    candidates.push_back({waiting->score, eos, waiting->entry, 0});
    ++waiting;
  };
  for (int64_t at = number * found.n; at < (number + 1) * found.n; ++at) {
    const float score = found.totals[at];
    if (!(score > -INFINITY)) break;
    while (waiting != beam.waiting.end() && waiting->score > score) take_waiting();
    const int64_t row = found.rows[at];
    candidates.push_back({score, found.tokens[at], row_entries[row], row});
  }
  while (waiting != beam.waiting.end()) take_waiting();
  // Waiting candidates count for the width of the beam.
  if (!beam.waiting.empty())
    candidates.resize(std::min<size_t>(candidates.size(), size_t(options.beam)));
  return candidates;
}

std::vector<Extension> Beams::allocated(int64_t number, std::vector<Extension> candidates,
                                        const std::vector<RowExtension> &more) const {
  struct Place {
    int64_t bank, rank;
    Extension own;
  };
  const Beam &beam = beams[in_focus[number]];
  for (const RowExtension &own : more)
    candidates.push_back({own.total, own.token, row_entries[own.row], own.row});
  std::vector<Place> places;
  std::set<std::pair<int64_t, int64_t>> seen;
  for (const Extension &own : candidates) {
    if (!seen.insert({own.row, own.token}).second) continue;
    const Progress after = beam.constraints->after(progress_of(beam, own.entry), own.token);
    places.push_back({beam.constraints->bank(after), 0, own});
  }
  std::stable_sort(places.begin(), places.end(), [](const Place &one, const Place &other) {
    return one.bank != other.bank ? one.bank > other.bank : one.own.score > other.own.score;
  });
  for (size_t i = 1; i < places.size(); ++i)
    if (places[i].bank == places[i - 1].bank) places[i].rank = places[i - 1].rank + 1;
  std::stable_sort(places.begin(), places.end(), [](const Place &one, const Place &other) {
    return one.rank < other.rank;
  });
  places.resize(std::min<size_t>(places.size(), size_t(options.n_candidates())));
  candidates.clear();
  for (const Place &place : places) candidates.push_back(place.own);
  return candidates;
}

std::vector<Extension> Beams::of_group(
    int64_t number, const std::vector<RowExtension> &found,
    const std::vector<std::vector<Extension>> &earlier) const {
  const Beam &beam = beams[in_focus[number]];
  const int64_t n_groups = options.diverse_beam_groups, group = int64_t(earlier.size());
  std::map<int64_t, int64_t> n_common;  // by token
  for (int64_t other = 0; other < group; ++other)
    for (const Extension &own : earlier[other])
      if (own.score > -INFINITY)
        n_common[own.token] += 1 + beam.overlap[other * n_groups + group];
  std::vector<Extension> chosen;
  for (const RowExtension &own : found) {
    if (beam.length && (own.row - starts[number]) % n_groups != group) continue;
    const auto common = n_common.find(own.token);
    const double penalty =
        common == n_common.end() ? 0 : options.diverse_beam_strength * double(common->second);
    chosen.push_back({own.total - float(penalty), own.token, row_entries[own.row], own.row});
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const Extension &one, const Extension &other) {
    return one.score > other.score;
  });
  // Candidates that are not possible fill the other places; they cannot be extended.
  const int64_t first = starts[number];
  chosen.resize(options.n_candidates() / n_groups, {-INFINITY, eos, row_entries[first], first});
  return chosen;
}

std::vector<Extension> Beams::of_groups(int64_t number, const std::vector<RowExtension> &found) {
  const int64_t n_groups = options.diverse_beam_groups;
  std::vector<int64_t> &overlap = beams[in_focus[number]].overlap;
  overlap.resize(n_groups * n_groups);
  std::vector<std::vector<Extension>> groups;
  for (int64_t group = 0; group < n_groups; ++group)
    groups.push_back(of_group(number, found, groups));
  std::vector<Extension> candidates;
  for (size_t rank = 0; rank < groups[0].size(); ++rank)
    for (int64_t group = 0; group < n_groups; ++group) {
      candidates.push_back(groups[group][rank]);
      for (int64_t other = 0; options.cumulative_diversity && other < group; ++other)
        overlap[other * n_groups + group] += groups[other][rank].token == groups[group][rank].token;
    }
  return candidates;
}

void Beams::judge_as_diverse(Beam &beam, const std::vector<Extension> &candidates) const {
  const int64_t n_ended = options.cumulative_diversity ? int64_t(beam.finals.size()) : 0;
  const int64_t n_open = options.beam - n_ended;
  std::vector<Extension> over;
  for (int64_t place = 0; place < int64_t(candidates.size()); ++place) {
    const Extension &own = candidates[place];
    const bool ends = own.token == eos && own.score > -INFINITY;
    const bool is_over = ends || (n_open <= place && place < options.beam);
    (is_over ? over : beam.children).push_back(own);
    if (ends && place < n_open && has_final_room(beam)) beam.finish(own);
  }
  beam.children.insert(beam.children.end(), over.begin(), over.end());
  beam.children.resize(options.beam);
  const auto is_end = [this](const Extension &own) { return own.token == eos; };
  if (std::all_of(beam.children.begin(), beam.children.end(), is_end)) beam.children.clear();
}

float Beams::least_score(const Beam &beam, const std::vector<Extension> &candidates) const {
  return std::max(candidates[0].score, beam.best_final) - float(options.prune_threshold);
}

void Beams::judge_as_fairseq(Beam &beam, const std::vector<Extension> &candidates) const {
  const float least = least_score(beam, candidates);
  for (int64_t i = 0; i < int64_t(candidates.size()) && candidates[i].score >= least; ++i) {
    if (candidates[i].token != eos) {
      if (int64_t(beam.children.size()) < options.beam) beam.children.push_back(candidates[i]);
    } else if (i < options.beam && has_final_room(beam)) {
      beam.finish(candidates[i]);
    }
  }
}

float Beams::normalized(float score, int64_t length) const {
  return score / float(std::pow(double(length), lenpen));
}

void Beams::judge_as_hf(Beam &beam, const std::vector<Extension> &candidates) const {
  for (int64_t i = 0; i < int64_t(candidates.size()); ++i) {
    const Extension &own = candidates[i];
    if (own.token != eos) {
      if (int64_t(beam.children.size()) < options.beam) beam.children.push_back(own);
    } else if (i < options.beam) {
      beam.finals.push_back({own.score, own.entry, normalized(own.score, beam.length + 1)});
    }
  }
  std::stable_sort(beam.finals.begin(), beam.finals.end(), [](const auto &a, const auto &b) {
    return a.normalized > b.normalized;
  });
  if (int64_t(beam.finals.size()) > options.beam) beam.finals.resize(options.beam);
}

void Beams::judge_as_paper(Beam &beam, const std::vector<Extension> &candidates) const {
  const float least = least_score(beam, candidates);
  size_t i = 0;
  for (; i < candidates.size() && candidates[i].token == eos; ++i)
    if (has_final_room(beam)) beam.finish(candidates[i]);
  int64_t left = options.beam - int64_t(beam.finals.size());
  for (; i < candidates.size() && left > 0 && candidates[i].score >= least; ++i, --left) {
    if (candidates[i].token == eos)
      beam.waiting.push_back({candidates[i].score, candidates[i].entry});
    else
      beam.children.push_back(candidates[i]);
  }
}

void Beams::judge(const Extensions &found) {
  for (size_t number = 0; number < in_focus.size(); ++number) {
    Beam &beam = beams[in_focus[number]];
    std::vector<Extension> candidates;
    if (options.diverse_beam_groups)
      candidates = of_groups(int64_t(number), found.more[number]);
    else
      candidates = candidates_of(int64_t(number), found);
    if (beam.constraints)
      candidates = allocated(int64_t(number), std::move(candidates), found.more[number]);
    ++beam.steps, beam.expansions += beam.width();
    beam.waiting.clear(), beam.children.clear();
    if (candidates.empty()) continue;
    if (options.diverse_beam_groups)
      judge_as_diverse(beam, candidates);
    else if (options.is_papers())
      judge_as_paper(beam, candidates);
    else if (options.is_hf())
      judge_as_hf(beam, candidates);
    else
      judge_as_fairseq(beam, candidates);
  }
}

bool Beams::is_done(int64_t number) const {
  const auto is_worse = [](const Extension &one, const Extension &other) {
    return one.score < other.score;
  };
  const Beam &beam = beams[in_focus[number]];
  if (beam.children.empty()) return true;
  if (has_final_room(beam)) return false;
  if (!options.improves()) return true;
  // With constraints, the first child need not be the best one. The children have one token more
  // than the expanded entries.
  const auto best = std::max_element(beam.children.begin(), beam.children.end(), is_worse);
  return !(normalized(best->score, beam.length + 1) > beam.finals.back().normalized);
}

void Beams::extend(const std::vector<int64_t> &places, std::vector<int64_t> &origins) {
  for (int64_t number : places) {
    Beam &beam = beams[in_focus[number]];
    std::vector<Progress> progress;
    for (const Extension &child : beam.children)
      if (beam.constraints)
        progress.push_back(beam.constraints->after(progress_of(beam, child.entry), child.token));
    beam.progress.swap(progress);
    beam.first = int64_t(beam.entries.size());
    ++beam.length;
    for (const Extension &child : beam.children) {
      beam.entries.push_back({child.token, child.entry, child.score});
      origins.push_back(child.row);
    }
  }
}

std::vector<Hypothesis> Beams::hypotheses(int64_t slot) const {
  const Beam &beam = beams[slot];
  if (beam.finals.empty()) return {hypothesis(beam, {-INFINITY, beam.first})};
  std::vector<Hypothesis> found;
  for (const EndedCandidate &ended : beam.finals) found.push_back(hypothesis(beam, ended));
  return found;
}

Hypothesis Beams::hypothesis(const Beam &beam, const EndedCandidate &ended) const {
  Hypothesis found;
  found.total = ended.score;
  found.tokens.push_back(eos);
  // A token's score is what it adds to the score of the entry that it continues.
  float after = ended.score;
  int64_t at = ended.entry;
  if (!beam.attention.empty()) found.attention = attention_along(beam, at);
  for (; beam.entries[at].parent >= 0; at = beam.entries[at].parent) {
    found.scores.push_back(after - beam.entries[at].score);
    found.tokens.push_back(beam.entries[at].token);
    after = beam.entries[at].score;
  }
  found.scores.push_back(after);
  std::reverse(found.tokens.begin(), found.tokens.end());
  std::reverse(found.scores.begin(), found.scores.end());
  return found;
}

}  // namespace fastdec

// The kernels as the engine calls them: each runs one task of structures.h in the task's threads.
//
// dispatch.cpp compiles them for each kind of processor. That a task fits together is the engine's
// business: the build with sanitizers asserts it (assertions.h).

#pragma once

#include <string>

#include "../kernels/cpp/structures.h"
#include "memory.h"

namespace fastdec {

// The format of weights of a numpy dtype; null if there is none.
const Format *format_of(const std::string &dtype);

// The multiply-adds of all products and attention since the library was loaded: the measure of the
// papers' FLOPs.
int64_t n_multiply_adds();

// For tests: from now on kernels compute in vectors of at most this many floats.
void set_width(int64_t widest);

// Measures what threads cost, of which a call may have this many. Tasks then run in no more threads
// than they have work for. Fewer than 2: forgets it, and tasks run in all threads that they may have.
void measure_costs(int64_t n_threads);

// Runs the task; `scratch` grows to what it needs.
void run(Step &task, Buffer<float> &scratch);
void run(Product &task, Buffer<float> &scratch);
void run(BestToken &task, Buffer<float> &scratch);
void run(Heads &task, Buffer<float> &scratch);
void run(TopK &task, Buffer<float> &scratch);

// A step of sequential heads.
void run(Draft &task, Buffer<float> &scratch);
// Runs sequential heads step by step; returns how many steps were taken.
void run(DraftChains &task, Buffer<float> &of_draft, Buffer<float> &of_choice);

// Divides the logits of a product.
void divide(const Product &task, float temperature);

// Grow trees of proposals; return how many tokens the longest tree has, by which all are stored.
void run(Trees &task);
void run(DraftTrees &task, Buffer<float> &of_draft, Buffer<float> &of_product,
            Buffer<float> &of_choice);

// Moves the tokens on accepted paths of trees to the ends of their rows.
void run(PathMove &task);

// Copies rows of a cache to the places of others.
void run(Move &task, Buffer<char> &scratch);

// Judges the candidates of the beams in focus; returns how many beams are done.
int64_t judge_beams(BeamTable &table, Buffer<char> &scratch);
// Beams that were judged become their children, with the same scratch memory.
void extend_beams(BeamTable &table);
// Follows hypotheses back to their first token.
void run(Trace &task);

}  // namespace fastdec

// The interface of the kernels: each runs one task of structures.h in the task's threads.
//
// dispatch.cpp chooses them for the processor. The engine must pass consistent tasks, which
// the build with sanitizers asserts (assertions.h).

#pragma once

#include <string>
#include <vector>

#include "structures.h"
#include "memory.h"

namespace fastdec {

// The format of weights with a numpy dtype; null if there is none.
const Format *format_of(const std::string &dtype);

// The number of multiply-adds of all products and attention since the library was loaded, for the
// FLOPs that papers report.
int64_t n_multiply_adds();

// The names of the instruction sets that the processor has, from the slowest to the fastest, which
// is in use at first.
std::vector<std::string> instruction_sets();
std::string instruction_set_in_use();

// Uses the kernels of another one. Throws std::invalid_argument if the processor does not have it.
void use_instruction_set(const std::string &name);

// Measures the costs of up to n_threads threads. Tasks then run in the fastest number of threads.
// If n_threads is less than 2, measurements are dropped, and tasks run in all threads that they may
// use.
void measure_costs(int64_t n_threads);

// Runs the task; `scratch` grows as needed.
void run(Step &task, Buffer<float> &scratch);
// Divides the results by the temperature.
void run(Product &task, Buffer<float> &scratch, float temperature = 1);
void run(BestTokens &task, Buffer<float> &scratch);
// Runs several choices. Threads share the choices, unless there is only one.
void run(std::vector<BestTokens> &tasks, Buffer<float> &scratch);
void run(Heads &task, Buffer<float> &scratch);
void run(TopK &task, Buffer<float> &scratch);

// Runs one step of sequential heads.
void run(SequentialHeads &task, Buffer<float> &scratch);
// Runs sequential heads step by step.
void run(ProposalChains &task, Buffer<float> &of_heads, Buffer<float> &of_choice);

}  // namespace fastdec

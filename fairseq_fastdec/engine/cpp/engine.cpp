// The models and searches, in one translation unit: the headers that they share take longer to
// compile than they do.

#include "beam_search.cpp"
#include "beams.cpp"
#include "blocks.cpp"
#include "constraints.cpp"
#include "decoder.cpp"
#include "guesses.cpp"
#include "jacobi.cpp"
#include "one_hypothesis.cpp"
#include "output_layers.cpp"
#include "pairs.cpp"
#include "proposers.cpp"
#include "rules.cpp"
#include "sampling.cpp"
#include "service.cpp"

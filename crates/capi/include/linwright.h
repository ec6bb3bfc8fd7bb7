/*
 * Linwright in C: molecular potentials and structured linear operators.
 *
 * Link with liblinwright_capi (`cargo build --release -p linwright-capi`): -llinwright_capi, and with the static
 * library also -lpthread -ldl -lm.
 *
 * Every function that can fail returns 0 for success, or the exit code that the command `linwright` would have:
 *
 *   1  failure
 *   2  wrong usage: a null pointer, a wrong option, the wrong precision
 *   5  out of memory or disk
 *
 * linwright_last_error() then has the text. After a failure nothing was written to the outputs, but a handle to be
 * opened is NULL.
 *
 * Pointers. Each must be null, which is refused unless the function says otherwise, or point to as many numbers as the
 * function says, aligned as their type; that is not checked, since C cannot tell. Nothing keeps a pointer after its
 * call. Texts are UTF-8 and end with a zero byte. Handles come from an open function and are freed once by the free
 * function of their kind.
 *
 * Threads. Different handles can be used by different threads at once, and so can one operator, which no function
 * changes. One potential must be used by one thread at a time; it may be another thread each time.
 *
 * Files are mapped. Where one becomes shorter while it is read, a line on stderr names it, and the signal SIGBUS then ends
 * the process, or goes to the handler that the program had before its first call of a function here.
 */
#ifndef LINWRIGHT_H
#define LINWRIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A potential with its atoms. */
typedef struct LinwrightPotential LinwrightPotential;

/* A linear operator, or another map of rows. */
typedef struct LinwrightOperator LinwrightOperator;

/* The version, such as "0.1.0 (abc1234 2026-11-23)"; a constant. */
const char *linwright_version(void);

/*
 * What was wrong at the last failure in this thread, as the command tells it: what, where, expected and found. Empty if
 * nothing has failed. The text is valid until the next failure in this thread; functions that succeed leave it.
 */
const char *linwright_last_error(void);

/* What to do about the last failure in this thread; empty if nothing is known. Valid as linwright_last_error(). */
const char *linwright_last_hint(void);

/*
 * Sets the number of threads of all work; 0 means all cores. It fails once threads have started, as with the first large
 * computation. Results do not depend on it.
 */
int32_t linwright_set_threads(size_t threads);

/* ---- Potentials. Electron volts, angstroms and elementary charges, whatever the units of the model. ---- */

/*
 * Opens a model: a .ckpt of torchmd-net, a .safetensors, a directory that `linwright molecule train` wrote, or several
 * models, whose mean is computed: a directory of these, or a .zip of checkpoints.
 *
 * path:      the file or directory.
 * exact:     0 for the fast path in single precision, else double precision, which also has every architecture.
 * potential: receives the handle.
 */
int32_t linwright_potential_open(const char *path, int32_t exact, LinwrightPotential **potential);

/* As linwright_potential_open, of several paths at once. paths: so many texts as count says, at least one. */
int32_t linwright_potential_open_ensemble(const char *const *paths, size_t count, int32_t exact, LinwrightPotential **potential);

/* Frees a potential; NULL is left alone. */
void linwright_potential_free(LinwrightPotential *potential);

/* Distance beyond which atoms do not interact. Not a number if potential is NULL. */
double linwright_potential_cutoff(const LinwrightPotential *potential);

/*
 * From now on positions are steps of one simulation: pairs of atoms are kept until an atom has moved by half of skin.
 * Results are the same to the last bit.
 */
int32_t linwright_potential_keep_pairs(LinwrightPotential *potential, double skin);

/* Sets the atoms. numbers: the atomic number of each; copied. */
int32_t linwright_potential_set_species(LinwrightPotential *potential, const uint8_t *numbers, size_t atoms);

/* Sets the positions. positions: x, y, z of each atom; copied. */
int32_t linwright_potential_set_positions(LinwrightPotential *potential, const double *positions, size_t atoms);

/*
 * Sets the cell.
 *
 * cell:     nine numbers, the lattice vectors as rows; NULL for an open molecule, as at the beginning.
 * periodic: three flags, whether each lattice vector repeats; NULL if all do.
 */
int32_t linwright_potential_set_cell(LinwrightPotential *potential, const double *cell, const int32_t *periodic);

/* Sets the total charge, zero at the beginning. */
int32_t linwright_potential_set_charge(LinwrightPotential *potential, double charge);

/*
 * Computes what has a place; each of these may be NULL. Without forces and virial it takes a third of the time.
 *
 * energy:        one number.
 * atom_energies: a number for each atom.
 * forces:        x, y, z for each atom.
 * virial:        nine numbers, minus the derivative of the energy by strain; stress is minus the virial over the volume.
 */
int32_t linwright_potential_compute(LinwrightPotential *potential, double *energy, double *atom_energies, double *forces, double *virial);

/*
 * How much the models of an ensemble differed at the last computation: unbiased standard deviations. A single model has
 * none, which is refused. Each place may be NULL.
 *
 * energy: one number.
 * forces: x, y, z for each atom, if they were computed.
 */
int32_t linwright_potential_deviation(const LinwrightPotential *potential, double *energy, double *forces);

/* ---- Operators. Rows of numbers, one after another without gaps: row r of x begins at x + r * inputs. ---- */

/*
 * Opens an operator: a file of Operator.save of Python, or of `linwright fit`.
 *
 * path: the file.
 * bits: 32 or 64, the precision to compute in; 0 for that of the file.
 * op:   receives the handle.
 */
int32_t linwright_operator_open(const char *path, uint32_t bits, LinwrightOperator **op);

/* Frees an operator; NULL is left alone. */
void linwright_operator_free(LinwrightOperator *op);

/* Number of features of a row of x. 0 if op is NULL. */
size_t linwright_operator_inputs(const LinwrightOperator *op);

/* Number of features of a row of y. 0 if op is NULL. */
size_t linwright_operator_outputs(const LinwrightOperator *op);

/* Precision: 32 or 64. 0 if op is NULL. */
uint32_t linwright_operator_bits(const LinwrightOperator *op);

/*
 * Maps rows, of an operator with 32 bits.
 *
 * x: rows * inputs numbers.
 * y: receives rows * outputs numbers; memory apart from x.
 */
int32_t linwright_operator_forward_f32(const LinwrightOperator *op, size_t rows, const float *x, float *y);

/* The same of an operator with 64 bits. */
int32_t linwright_operator_forward_f64(const LinwrightOperator *op, size_t rows, const double *x, double *y);

/*
 * Gradient of the input, of an operator with 32 bits.
 *
 * x:  rows * inputs numbers, as for forward.
 * dy: rows * outputs numbers, the gradient of a loss with respect to y.
 * dx: receives rows * inputs numbers, its gradient with respect to x; memory apart from x and dy.
 */
int32_t linwright_operator_backward_f32(const LinwrightOperator *op, size_t rows, const float *x, const float *dy, float *dx);

/* The same of an operator with 64 bits. */
int32_t linwright_operator_backward_f64(const LinwrightOperator *op, size_t rows, const double *x, const double *dy, double *dx);

#ifdef __cplusplus
}
#endif

#endif

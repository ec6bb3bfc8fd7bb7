/*
 * Calls all functions of the header, and prints what they return, for `main.rs`, which knows what is right:
 *
 *   interface POTENTIAL ENSEMBLE CHARGED OPERATOR
 *
 * Numbers are printed with 17 digits, which keep all bits.
 */
#include "linwright.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_numbers(const char *name, const double *numbers, size_t count) {
    printf("%s", name);
    for (size_t i = 0; i < count; i++) {
        printf(" %.17g", numbers[i]);
    }
    printf("\n");
}

/* Must succeed. */
static void must(int32_t code, const char *what) {
    if (code != 0) {
        printf("%s failed with %d: %s\n", what, code, linwright_last_error());
        exit(1);
    }
}

/* Must fail; prints code and text. */
static void refused(int32_t code, const char *what) {
    printf("refused %s: %d: %s", what, code, linwright_last_error());
    if (linwright_last_hint()[0] != '\0') {
        printf(" | %s", linwright_last_hint());
    }
    printf("\n");
}

static const uint8_t SPECIES[3] = {8, 1, 1};
static const double POSITIONS[9] = {0.0, 0.0, 0.1, 0.0, 0.8, -0.5, 0.0, -0.8, -0.5};
static const double CELL[9] = {9.0, 0.0, 0.0, 0.5, 8.0, 0.0, 0.0, 0.25, 7.5};

static void compute(LinwrightPotential *potential, const char *name) {
    double energy, each[3], forces[9], virial[9];
    must(linwright_potential_compute(potential, &energy, each, forces, virial), name);
    printf("%s\n", name);
    print_numbers("energy", &energy, 1);
    print_numbers("atom_energies", each, 3);
    print_numbers("forces", forces, 9);
    print_numbers("virial", virial, 9);
}

static void potentials(const char *path, const char *ensemble, const char *charged) {
    LinwrightPotential *one = NULL, *exact = NULL, *mean = NULL, *charges = NULL;
    must(linwright_potential_open(path, 0, &one), "open");
    must(linwright_potential_open(path, 1, &exact), "open exact");
    double cutoff = linwright_potential_cutoff(one), energy = 0.0, same = 0.0;
    print_numbers("cutoff", &cutoff, 1);

    must(linwright_potential_set_species(one, SPECIES, 3), "species");
    must(linwright_potential_set_positions(one, POSITIONS, 3), "positions");
    must(linwright_potential_keep_pairs(one, 0.5), "pairs");
    compute(one, "open");
    must(linwright_potential_compute(one, &same, NULL, NULL, NULL), "energy alone");
    print_numbers("alone", &same, 1);
    must(linwright_potential_set_cell(one, CELL, NULL), "cell");
    compute(one, "cell");
    const int32_t slab[3] = {1, 1, 0};
    must(linwright_potential_set_cell(one, CELL, slab), "cell of a slab");
    compute(one, "slab");
    must(linwright_potential_set_cell(one, NULL, NULL), "no cell");
    compute(one, "again");

    must(linwright_potential_set_species(exact, SPECIES, 3), "species");
    must(linwright_potential_set_positions(exact, POSITIONS, 3), "positions");
    compute(exact, "exact");

    must(linwright_potential_open(charged, 1, &charges), "open charged");
    must(linwright_potential_set_species(charges, SPECIES, 3), "species");
    must(linwright_potential_set_positions(charges, POSITIONS, 3), "positions");
    must(linwright_potential_set_charge(charges, 1.0), "charge");
    compute(charges, "charged");

    must(linwright_potential_open(ensemble, 0, &mean), "open ensemble");
    must(linwright_potential_set_species(mean, SPECIES, 3), "species");
    must(linwright_potential_set_positions(mean, POSITIONS, 3), "positions");
    refused(linwright_potential_deviation(mean, &energy, NULL), "deviation before computing");
    compute(mean, "ensemble");
    double forces[9];
    must(linwright_potential_deviation(mean, &energy, forces), "deviation");
    print_numbers("deviation", &energy, 1);
    print_numbers("deviation_forces", forces, 9);
    must(linwright_potential_compute(mean, &energy, NULL, NULL, NULL), "energy alone");
    refused(linwright_potential_deviation(mean, NULL, forces), "deviation of no forces");

    LinwrightPotential *both = NULL;
    const char *paths[2] = {path, path};
    must(linwright_potential_open_ensemble(paths, 2, 0, &both), "open both");
    must(linwright_potential_set_species(both, SPECIES, 3), "species");
    must(linwright_potential_set_positions(both, POSITIONS, 3), "positions");
    must(linwright_potential_compute(both, &energy, NULL, NULL, NULL), "both");
    print_numbers("both", &energy, 1);

    LinwrightPotential *none = one;
    refused(linwright_potential_open("no/such/model.ckpt", 0, &none), "absent");
    printf("handle %s\n", none == NULL ? "null" : "left");
    refused(linwright_potential_open(NULL, 0, &none), "null path");
    refused(linwright_potential_open("", 0, &none), "empty path");
    refused(linwright_potential_open(path, 0, NULL), "null handle");
    refused(linwright_potential_open_ensemble(paths, 0, 0, &none), "no paths");
    refused(linwright_potential_open_ensemble(NULL, 2, 0, &none), "null paths");
    refused(linwright_potential_open(charged, 0, &none), "charged and fast");
    refused(linwright_potential_deviation(one, &energy, NULL), "deviation of one");
    refused(linwright_potential_set_species(one, NULL, 3), "null species");
    refused(linwright_potential_set_positions(one, POSITIONS, SIZE_MAX / 2), "too many");
    refused(linwright_potential_set_positions(one, (const double *)((const char *)POSITIONS + 1), 2), "misaligned");
    refused(linwright_potential_set_charge(one, NAN), "charge");
    refused(linwright_potential_keep_pairs(one, -1.0), "skin");
    refused(linwright_potential_compute(NULL, &energy, NULL, NULL, NULL), "null potential");
    must(linwright_potential_set_positions(one, POSITIONS, 2), "two positions");
    refused(linwright_potential_compute(one, &energy, NULL, NULL, NULL), "two positions of three");
    const double same_place[9] = {0.0};
    must(linwright_potential_set_positions(one, same_place, 3), "positions");
    refused(linwright_potential_compute(one, &energy, NULL, NULL, NULL), "coincident");
    double wild[9];
    memcpy(wild, POSITIONS, sizeof wild);
    wild[4] = INFINITY;
    must(linwright_potential_set_positions(one, wild, 3), "positions");
    refused(linwright_potential_compute(one, &energy, NULL, NULL, NULL), "infinite");
    const uint8_t unknown[3] = {8, 1, 200};
    must(linwright_potential_set_positions(one, POSITIONS, 3), "positions");
    must(linwright_potential_set_species(one, unknown, 3), "species");
    refused(linwright_potential_compute(one, &energy, NULL, NULL, NULL), "unknown");
    const double flat[9] = {1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0};
    must(linwright_potential_set_species(one, SPECIES, 3), "species");
    must(linwright_potential_set_cell(one, flat, NULL), "cell");
    refused(linwright_potential_compute(one, &energy, NULL, NULL, NULL), "flat cell");
    /* What was refused did no harm. */
    must(linwright_potential_set_cell(one, NULL, NULL), "no cell");
    compute(one, "after");
    printf("cutoff of null %s\n", isnan(linwright_potential_cutoff(NULL)) ? "nan" : "number");

    linwright_potential_free(one);
    linwright_potential_free(exact);
    linwright_potential_free(charges);
    linwright_potential_free(mean);
    linwright_potential_free(both);
    linwright_potential_free(NULL);
}

static void operators(const char *path, const char *other) {
    enum { ROWS = 5 };
    LinwrightOperator *own = NULL, *single = NULL;
    must(linwright_operator_open(path, 0, &own), "open");
    must(linwright_operator_open(path, 32, &single), "open in 32 bits");
    size_t inputs = linwright_operator_inputs(own), outputs = linwright_operator_outputs(own);
    printf("operator %zu %zu %u %u\n", inputs, outputs, linwright_operator_bits(own), linwright_operator_bits(single));

    double *x = malloc(ROWS * inputs * sizeof *x), *dx = malloc(ROWS * inputs * sizeof *dx);
    double *y = malloc(ROWS * outputs * sizeof *y);
    float *x_single = malloc(ROWS * inputs * sizeof *x_single), *dx_single = malloc(ROWS * inputs * sizeof *dx_single);
    float *y_single = malloc(ROWS * outputs * sizeof *y_single);
    for (size_t i = 0; i < ROWS * inputs; i++) {
        x[i] = ((double)(i * 37 % 64) - 32.0) / 16.0;
        x_single[i] = (float)x[i];
    }
    must(linwright_operator_forward_f64(own, ROWS, x, y), "forward");
    print_numbers("y", y, ROWS * outputs);
    must(linwright_operator_backward_f64(own, ROWS, x, y, dx), "backward");
    print_numbers("dx", dx, ROWS * inputs);
    must(linwright_operator_forward_f32(single, ROWS, x_single, y_single), "forward in 32 bits");
    must(linwright_operator_backward_f32(single, ROWS, x_single, y_single, dx_single), "backward in 32 bits");
    for (size_t i = 0; i < ROWS * outputs; i++) {
        y[i] = y_single[i];
    }
    print_numbers("y_single", y, ROWS * outputs);
    for (size_t i = 0; i < ROWS * inputs; i++) {
        dx[i] = dx_single[i];
    }
    print_numbers("dx_single", dx, ROWS * inputs);
    must(linwright_operator_forward_f64(own, 0, NULL, NULL), "no rows");

    LinwrightOperator *none = own;
    refused(linwright_operator_open("no/such/operator.safetensors", 0, &none), "absent");
    refused(linwright_operator_open(other, 0, &none), "another file");
    refused(linwright_operator_open(path, 16, &none), "16 bits");
    printf("handle %s\n", none == NULL ? "null" : "left");
    refused(linwright_operator_open(path, 0, NULL), "null handle");
    refused(linwright_operator_forward_f32(own, ROWS, x_single, y_single), "other precision");
    refused(linwright_operator_forward_f64(own, ROWS, NULL, y), "null x");
    refused(linwright_operator_forward_f64(own, ROWS, x, NULL), "null y");
    refused(linwright_operator_forward_f64(own, SIZE_MAX, x, y), "too many rows");
    refused(linwright_operator_forward_f64(own, 1, x, x + 1), "overlap");
    refused(linwright_operator_backward_f64(own, 1, x, y, x), "overlap with x");
    refused(linwright_operator_backward_f64(own, 1, x, NULL, dx), "null dy");
    refused(linwright_operator_forward_f64(NULL, 1, x, y), "null operator");
    printf("null %zu %zu %u\n", linwright_operator_inputs(NULL), linwright_operator_outputs(NULL), linwright_operator_bits(NULL));

    linwright_operator_free(own);
    linwright_operator_free(single);
    linwright_operator_free(NULL);
    free(x);
    free(dx);
    free(y);
    free(x_single);
    free(dx_single);
    free(y_single);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "usage: interface POTENTIAL ENSEMBLE CHARGED OPERATOR\n");
        return 2;
    }
    printf("version %s\n", linwright_version());
    printf("no error [%s] [%s]\n", linwright_last_error(), linwright_last_hint());
    must(linwright_set_threads(2), "threads");
    potentials(arguments[1], arguments[2], arguments[3]);
    operators(arguments[4], arguments[1]);
    return 0;
}

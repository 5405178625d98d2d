#pragma once
#include "sandbox/spec.h"

/*
 * Copies of what a spec borrows to describe its files: the stack, trees and caches. For specs that
 * outlive the request they came with.
 */

/* Replaces these pointers by owned copies. Aborts if there is no memory. */
void atoll_spec_own_layers(struct atoll_spec *spec);
/* Frees the copies and sets the pointers to NULL. */
void atoll_spec_free_layers(struct atoll_spec *spec);

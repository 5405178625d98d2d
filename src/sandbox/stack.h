#pragma once
#include "base/error.h"
#include "sandbox/spec.h"

/*
 * Stacks of layers as text: names separated by single spaces, bottom first (sandbox/spec.h). Pure
 * functions.
 */

/* As the first name of a stack: the host template, with its /usr, is below the layers. Such layers have
 * a directory usr. */
#define ATOLL_STACK_HOST "host"
bool atoll_stack_is_host(const char *layers);
/* The stack without that name; "" if it has no other. */
const char *atoll_stack_above_host(const char *layers);

/* Room for any stack, with its NUL. */
#define ATOLL_STACK_CAP (ATOLL_LAYERS_MAX * (ATOLL_LAYER_NAME_MAX + 1))

/* One name of a stack: the next one at *pos, which begins as the stack and ends as "". False at the
 * end, and for a name that is too long. */
bool atoll_stack_next(const char **pos, char ret_name[static ATOLL_LAYER_NAME_MAX + 1]);
/* NULL and "" have no names. */
size_t atoll_stack_count(const char *layers);
bool atoll_stack_has(const char *layers, const char *name);
/* INVALID_ARGUMENT: empty, too long, or not names. The same name may occur more than once, as in OCI
 * images. */
int atoll_stack_check(const char *layers, struct atoll_error *err) ATOLL_MUST_CHECK;
/* The names, uppermost first, each only where it is uppermost: a lower one of the same name changes
 * nothing, and overlayfs refuses it. Returns their number, at most ATOLL_LAYERS_MAX; the stack must have
 * passed the check. */
size_t atoll_stack_split(const char *layers, char (*ret_names)[ATOLL_LAYER_NAME_MAX + 1]);
/* The name of the only layer of a spec, NULL if it has several. */
const char *atoll_stack_single(const struct atoll_spec *spec);

#pragma once
#include "engine/state/checkpoint.h"

/*
 * Which checkpoints are kept: all of the newest commands; of older ones fewer and fewer, so that the distances grow
 * with the age; and not more bytes than a sandbox and its tenant may have. The commands stay in the history.
 */
void atoll_checkpoints_thin(struct atoll_sandbox *sandbox);
/* Releases the layers of a command (checkpoint.c). */
void atoll_checkpoint_release(struct atoll_sandbox *sandbox, struct atoll_checkpoint *checkpoint);
/* Releases the older half, except for the newest checkpoint. Whether there was one. */
bool atoll_checkpoints_halve(struct atoll_sandbox *sandbox);
/* The same, if the disk of the sandbox is almost full: there blocks count until no checkpoint has them. */
void atoll_checkpoints_thin_full(struct atoll_sandbox *sandbox);

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
/* Releases only the layer before the command. */
void atoll_checkpoint_release_before(struct atoll_sandbox *sandbox,
                                     struct atoll_checkpoint *checkpoint);
/* In the disk pool, before a command starts: releases checkpoints until the disk has room for what the command may write,
 * and waits some seconds at most until their blocks are free. done is not called if the sandbox or its checkpoints end
 * meanwhile. */
void atoll_checkpoints_make_room(struct atoll_sandbox *sandbox, atoll_checkpoints_room_fn *done);

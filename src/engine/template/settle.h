#pragma once
#include "engine/template/unpack.h"

/*
 * The last layer of an image. An archive of an upper layer need not list the directories of its entries; in an
 * overlay they would hide the mode, owner, times and attributes that a lower layer gives them. So such an
 * image gets one more layer on top, with these directories only (unpack/settle.h, ADR 33).
 *
 * The layer has a name that is made from the names of all layers below it: it is made once, and shared.
 */

/* Finds or makes the layer for the stack, whose layers the caller holds. made->layer is held; "": the stack
 * needs no such layer, or has no room for it. May call back at once. */
void atoll_settle_stack(struct atoll_engine *engine, const char *stack, atoll_unpacked_fn *done,
                        void *arg);

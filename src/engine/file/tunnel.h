#pragma once
#include "engine/engine.h"
#include "loop/loop.h"

/*
 * A stream to an agent that becomes a connection to a port: asks for it, waits for the answer and
 * takes not a byte more than that, because the next ones are the port's.
 */
void atoll_tunnel_open(struct atoll_engine *engine, const char *sandbox_id, int fd, uint16_t port,
                       atoll_connected_fn *done, void *arg);

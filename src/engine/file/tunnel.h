#pragma once
#include "engine/engine.h"
#include "loop/loop.h"

/*
 * Turns a new stream to an agent (fd, takes ownership) into a connection to a port: sends the
 * request and reads the answer, but no byte after it, because those belong to the connection.
 */
void atoll_tunnel_open(struct atoll_engine *engine, const char *sandbox_id, int fd, uint16_t port,
                       atoll_connected_fn *done, void *arg);

#pragma once
#include "base/defs.h"

/* Connects to the unix stream socket dir/name, however long the path of dir is. Returns the
 * (close-on-exec) descriptor or -errno; -EAGAIN when whoever listens there has not accepted those
 * before for long: that is not waited for. */
int atoll_unix_connect(const char *dir, const char *name) ATOLL_MUST_CHECK;

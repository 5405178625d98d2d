#pragma once
#include "provider/provider.h"

/*
 * A provider that is not configured any more but still has sandboxes in the store. Every operation
 * fails with UNAVAILABLE, so that these sandboxes are unreachable, not lost.
 */
/* name: copied. INTERNAL. */
int atoll_absent_new(const char *name, struct atoll_provider **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

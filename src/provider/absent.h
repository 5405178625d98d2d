#pragma once
#include "provider/provider.h"

/*
 * A provider that sandboxes were made by and that is not configured any more: it answers nothing, so
 * that its sandboxes are out of reach and not gone.
 */
/* name: copied. INTERNAL. */
int atoll_absent_new(const char *name, struct atoll_provider **ret,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

#pragma once
#include "base/defs.h"

/*
 * jansson calls what it has no memory for "invalid", or makes less of it than there was. Whoever
 * reads or writes JSON of a size that others choose asks here for the difference.
 */

/* Once, before the first JSON. */
void atoll_json_memory_watch(void);
/* From here on, in this thread. */
void atoll_json_memory_begin(void);
/* Whether something of it found no memory. */
bool atoll_json_memory_failed(void);

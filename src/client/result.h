#pragma once
#include "base/buf.h"
#include "client/link.h"

/* Terminal records of commands as the public API shows them. */

/* Makes a result from the daemon's record. captured is NULL, or an array with a buffer for each stream
 * (index 0 is not used), whose bytes are moved into the result. RESOURCE_EXHAUSTED. */
int atoll_result_new(const json_t *record, const char *sandbox_id, const char *exec_id,
                     struct atoll_buf *captured, const bool *truncated,
                     struct atoll_client_result **ret_result,
                     struct atoll_error *err) ATOLL_MUST_CHECK;

/* The exit status for a record. An unknown record is never a success. */
int atoll_result_status(const json_t *record);

/* "stdout" and "stderr" as a number, 0 for any other text. */
int atoll_result_stream_number(const char *name);

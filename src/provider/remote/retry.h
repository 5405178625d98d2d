#pragma once
#include <stdbool.h>
#include <stdint.h>

/*
 * When to send a request again that a service refused with "later". Pure.
 *
 * These are retries of one request, whose refusal says that nothing was done. provider/checked.c
 * retries whole operations, also after errors that leave that open.
 */

/* Whether the status means that the service did nothing and the same request may succeed later:
 * 429 and 503. */
bool atoll_remote_is_later(long status);
/* Milliseconds until the next try: what the service asks for, and at least 250 ms, doubled with
 * every try up to 8 s, with a random part of up to a quarter so that callers spread. tries: sent so
 * far, from 1; random: any number. */
int64_t atoll_remote_delay_ms(unsigned tries, uint32_t retry_after_s, uint32_t random);

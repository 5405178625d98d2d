#pragma once
#include "api/call.h"

/*
 * Tokens that give access to one thing, such as a sandbox. They are derived from the daemon's secret
 * and the name of the thing: they are not stored, and stay valid as long as the thing exists.
 */
#define ATOLL_TOKEN_LEN 43

/* purpose: different for each kind of token; with the name at most 254 bytes. out holds ATOLL_TOKEN_LEN + 1 bytes. */
void atoll_token_make(const struct atoll_api *api, const char *purpose, const char *name,
                      char *out);
/* Compares in constant time. shown NULL: no token was sent. */
bool atoll_token_fits(const char *shown, const char *token);

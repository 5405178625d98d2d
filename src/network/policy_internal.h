#pragma once
#include "network/policy.h"

/*
 * What the files of the policy share: matching of targets, and fields of JSON with their position.
 */

bool atoll_network_is_v4(const struct in6_addr *address);
/* Whether the first `bits` bits are equal. */
bool atoll_network_same_prefix(const struct in6_addr *a, const struct in6_addr *b, unsigned bits);

bool atoll_network_match_port(const struct atoll_network_target *target, uint16_t port);
bool atoll_network_match_name(const struct atoll_network_target *target, const char *name);
bool atoll_network_match_address(const struct atoll_network_target *target,
                                 const struct in6_addr *address);

/* "network.WHERE must be WHAT". INVALID_ARGUMENT. */
int atoll_network_refuse(struct atoll_error *err, const char *where, const char *what);
int atoll_network_no_memory(struct atoll_error *err);
/* Refuses fields that are not in the list, which ends with NULL. `where`: "" or "transforms[2]". */
int atoll_network_known_fields(const json_t *object, const char *where, const char *const *known,
                               struct atoll_error *err) ATOLL_MUST_CHECK;
/* A copy of a string field of at most max bytes, without control characters unless `any`; *ret stays NULL
 * when the field is absent or null. */
int atoll_network_text_field(const json_t *value, const char *where, size_t max, bool any,
                             char **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* A target at `where`. */
int atoll_network_target_field(const json_t *value, const char *where,
                               struct atoll_network_target *ret,
                               struct atoll_error *err) ATOLL_MUST_CHECK;

/* Refuses a "match" that cannot be carried out. */
int atoll_network_match_check(const json_t *match, const char *where,
                              struct atoll_error *err) ATOLL_MUST_CHECK;

int atoll_network_transform_parse(const json_t *json, const char *where,
                                  struct atoll_network_transform *ret,
                                  struct atoll_error *err) ATOLL_MUST_CHECK;
json_t *atoll_network_transform_json(const struct atoll_network_transform *transform);
void atoll_network_transform_done(struct atoll_network_transform *transform);

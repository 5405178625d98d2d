#pragma once
#include "base/error.h"

/*
 * What a registry says about logins: the header WWW-Authenticate of a 401 (RFC 9110 section 11.6.1;
 * several challenges are separated by commas). Pure.
 */
enum atoll_image_challenge_kind {
    ATOLL_IMAGE_NO_CHALLENGE, /* nothing that we know */
    ATOLL_IMAGE_BASIC,
    ATOLL_IMAGE_BEARER, /* preferred if both are offered */
};

struct atoll_image_challenge {
    enum atoll_image_challenge_kind kind;
    char realm[1024]; /* of BEARER: the address of the token server */
    char service[256];
};

/* Values that do not fit make a challenge unknown. */
void atoll_image_challenge_parse(const char *header, struct atoll_image_challenge *ret);

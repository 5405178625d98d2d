#include "egress/address.h"

#include <arpa/inet.h>
#include <string.h>

void atoll_address_from_v4(const struct in_addr *v4, struct in6_addr *ret)
{
    *ret = (struct in6_addr){.s6_addr[10] = 0xff, .s6_addr[11] = 0xff};
    memcpy(&ret->s6_addr[12], v4, sizeof(*v4));
}

const char *atoll_address_print(const struct in6_addr *address, char *out)
{
    bool v4 = IN6_IS_ADDR_V4MAPPED(address);

    (void)inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &address->s6_addr[12] : address->s6_addr, out,
                    ATOLL_ADDRESS_TEXT_MAX);
    return out;
}

bool atoll_address_parse(const char *text, struct in6_addr *ret)
{
    struct in_addr v4;

    if (inet_pton(AF_INET, text, &v4) == 1) {
        atoll_address_from_v4(&v4, ret);
        return true;
    }
    return inet_pton(AF_INET6, text, ret) == 1;
}

socklen_t atoll_address_socket(const struct in6_addr *address, uint16_t port,
                               struct sockaddr_storage *ret)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)ret;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret;

    memset(ret, 0, sizeof(*ret));
    if (IN6_IS_ADDR_V4MAPPED(address)) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, &address->s6_addr[12], sizeof(v4->sin_addr));
        return sizeof(*v4);
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    v6->sin6_addr = *address;
    return sizeof(*v6);
}

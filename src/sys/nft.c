#include "sys/nft.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include "sys/netlink.h"
#include "sys/netspace.h"

#define DNS_PORT 53
#define TABLE "atoll"
#define CHAIN "prerouting"
#define CHAIN_PRIORITY (-150) /* "mangle": before the socket is looked up */

/* What a rule can look at. Every packet passes lo, so the chain sees each one once. */
enum field { ANY, FAMILY, PROTOCOL, IPV4_NET, IPV4_TO, IPV6_TO, PORT_FROM, PORT_TO };

static const struct {
    bool meta;
    uint32_t base;         /* NFT_META_*, or NFT_PAYLOAD_* */
    uint32_t offset, size; /* of the packet's header; the meta value has `size` bytes */
} fields[] = {
    [FAMILY] = {true, NFT_META_NFPROTO, 0, 1},
    [PROTOCOL] = {true, NFT_META_L4PROTO, 0, 1},
    [IPV4_NET] = {false, NFT_PAYLOAD_NETWORK_HEADER, 16, 1}, /* first byte of the destination */
    [IPV4_TO] = {false, NFT_PAYLOAD_NETWORK_HEADER, 16, 4},
    [IPV6_TO] = {false, NFT_PAYLOAD_NETWORK_HEADER, 24, 16},
    [PORT_FROM] = {false, NFT_PAYLOAD_TRANSPORT_HEADER, 0, 2},
    [PORT_TO] = {false, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2},
};

enum action {
    PASS,          /* to the socket that it is addressed to */
    TO_LISTENER,   /* to our listening socket; the packet is not changed */
    TO_RESOLVER,   /* the destination port becomes ours */
    FROM_RESOLVER, /* the source port becomes 53 */
    REFUSE,        /* ICMP port unreachable: the program gets ECONNREFUSED */
};

/* Values of fields, as they are in packets. */
#define IPV4 "\x02" /* NFPROTO_IPV4 */
#define IPV6 "\x0a"
#define TCP "\x06" /* IPPROTO_TCP */
#define UDP "\x11"
#define DNS "\x00\x35"   /* port 53 */
#define OURS "\xff\xfa"  /* ATOLL_NETSPACE_PORT */
#define LOOPBACK4 "\x7f" /* 127.0.0.0/8 */
#define LOOPBACK6 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01"
#define OWN4 "\x64\x40\0\x01" /* ATOLL_NETSPACE_ADDRESS4 */
#define OWN6 "\xfd\x61\x74\x6f\x6c\x6c\0\0\0\0\0\0\0\0\0\x01"
static_assert(ATOLL_NETSPACE_PORT == 0xfffa, "OURS");

/* The rules, in order; the first one that matches decides. None of them needs connection tracking. */
static const struct {
    struct {
        enum field field;
        const char *is;
    } match[2];
    enum action action;
} rules[] = {
    {{{FAMILY, IPV4}, {IPV4_NET, LOOPBACK4}}, PASS},
    {{{FAMILY, IPV6}, {IPV6_TO, LOOPBACK6}}, PASS},
    {{{PROTOCOL, UDP}, {PORT_TO, DNS}}, TO_RESOLVER},
    {{{PROTOCOL, UDP}, {PORT_FROM, OURS}}, FROM_RESOLVER},
    {{{PROTOCOL, TCP}, {PORT_TO, DNS}}, TO_LISTENER},
    {{{FAMILY, IPV4}, {IPV4_TO, OWN4}}, PASS},
    {{{FAMILY, IPV6}, {IPV6_TO, OWN6}}, PASS},
    {{{PROTOCOL, TCP}}, TO_LISTENER},
    {{{ANY, NULL}}, REFUSE},
};

/* An expression of a rule; its attributes follow until expression_end(). */
struct expression {
    size_t element, data;
};

static struct expression expression(struct atoll_netlink *nl, const char *name)
{
    struct expression e = {.element = atoll_netlink_nest(nl, NFTA_LIST_ELEM)};

    atoll_netlink_put_text(nl, NFTA_EXPR_NAME, name);
    e.data = atoll_netlink_nest(nl, NFTA_EXPR_DATA);
    return e;
}

static void expression_end(struct atoll_netlink *nl, struct expression e)
{
    atoll_netlink_nest_end(nl, e.data);
    atoll_netlink_nest_end(nl, e.element);
}

static void put_value(struct atoll_netlink *nl, uint16_t type, const void *value, size_t len)
{
    size_t data = atoll_netlink_nest(nl, type);

    atoll_netlink_put(nl, NFTA_DATA_VALUE, value, len);
    atoll_netlink_nest_end(nl, data);
}

/* Loads a field to the first register. */
static void put_load(struct atoll_netlink *nl, enum field field)
{
    struct expression e = expression(nl, fields[field].meta ? "meta" : "payload");

    if (fields[field].meta) {
        atoll_netlink_put_be32(nl, NFTA_META_KEY, fields[field].base);
        atoll_netlink_put_be32(nl, NFTA_META_DREG, NFT_REG_1);
    } else {
        atoll_netlink_put_be32(nl, NFTA_PAYLOAD_DREG, NFT_REG_1);
        atoll_netlink_put_be32(nl, NFTA_PAYLOAD_BASE, fields[field].base);
        atoll_netlink_put_be32(nl, NFTA_PAYLOAD_OFFSET, fields[field].offset);
        atoll_netlink_put_be32(nl, NFTA_PAYLOAD_LEN, fields[field].size);
    }
    expression_end(nl, e);
}

static void put_match(struct atoll_netlink *nl, enum field field, const char *is)
{
    struct expression e;

    put_load(nl, field);
    e = expression(nl, "cmp");
    atoll_netlink_put_be32(nl, NFTA_CMP_SREG, NFT_REG_1);
    atoll_netlink_put_be32(nl, NFTA_CMP_OP, NFT_CMP_EQ);
    put_value(nl, NFTA_CMP_DATA, is, fields[field].size);
    expression_end(nl, e);
}

static void put_port(struct atoll_netlink *nl, uint16_t port)
{
    struct expression e = expression(nl, "immediate");

    port = htons(port);
    atoll_netlink_put_be32(nl, NFTA_IMMEDIATE_DREG, NFT_REG_1);
    put_value(nl, NFTA_IMMEDIATE_DATA, &port, sizeof(port));
    expression_end(nl, e);
}

static void put_accept(struct atoll_netlink *nl)
{
    struct expression e = expression(nl, "immediate");
    size_t data, verdict;

    atoll_netlink_put_be32(nl, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    data = atoll_netlink_nest(nl, NFTA_IMMEDIATE_DATA);
    verdict = atoll_netlink_nest(nl, NFTA_DATA_VERDICT);
    atoll_netlink_put_be32(nl, NFTA_VERDICT_CODE, NF_ACCEPT);
    atoll_netlink_nest_end(nl, verdict);
    atoll_netlink_nest_end(nl, data);
    expression_end(nl, e);
}

static void put_tproxy(struct atoll_netlink *nl)
{
    struct expression e;

    put_port(nl, ATOLL_NETSPACE_PORT);
    e = expression(nl, "tproxy");
    atoll_netlink_put_be32(nl, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
    atoll_netlink_put_be32(nl, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    expression_end(nl, e);
}

/* Writes a port of a UDP header and corrects the checksum. */
static void put_rewrite(struct atoll_netlink *nl, enum field field, uint16_t port)
{
    const uint32_t checksum_offset = 6;
    struct expression e;

    put_port(nl, port);
    e = expression(nl, "payload");
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_SREG, NFT_REG_1);
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_BASE, fields[field].base);
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_OFFSET, fields[field].offset);
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_LEN, fields[field].size);
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
    atoll_netlink_put_be32(nl, NFTA_PAYLOAD_CSUM_OFFSET, checksum_offset);
    expression_end(nl, e);
}

static void put_refusal(struct atoll_netlink *nl)
{
    const uint8_t code = NFT_REJECT_ICMPX_PORT_UNREACH;
    struct expression e = expression(nl, "reject");

    atoll_netlink_put_be32(nl, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
    atoll_netlink_put(nl, NFTA_REJECT_ICMP_CODE, &code, sizeof(code));
    expression_end(nl, e);
}

static void put_action(struct atoll_netlink *nl, enum action action)
{
    switch (action) {
    case PASS:
        break;
    case TO_LISTENER:
        put_tproxy(nl);
        break;
    case TO_RESOLVER:
        put_rewrite(nl, PORT_TO, ATOLL_NETSPACE_PORT);
        break;
    case FROM_RESOLVER:
        put_rewrite(nl, PORT_FROM, DNS_PORT);
        break;
    case REFUSE:
        put_refusal(nl);
        return;
    }
    put_accept(nl);
}

static void begin_nft(struct atoll_netlink *nl, uint16_t type, uint16_t flags, uint8_t family,
                      uint16_t resource)
{
    struct nfgenmsg h = {
        .nfgen_family = family, .version = NFNETLINK_V0, .res_id = htons(resource)};
    atoll_netlink_begin(nl, type, flags, &h, sizeof(h));
}

static void put_table_and_chain(struct atoll_netlink *nl)
{
    const uint16_t subsystem = NFNL_SUBSYS_NFTABLES << 8;
    size_t hook;

    begin_nft(nl, subsystem | NFT_MSG_NEWTABLE, NLM_F_CREATE, NFPROTO_INET, 0);
    atoll_netlink_put_text(nl, NFTA_TABLE_NAME, TABLE);
    begin_nft(nl, subsystem | NFT_MSG_NEWCHAIN, NLM_F_CREATE, NFPROTO_INET, 0);
    atoll_netlink_put_text(nl, NFTA_CHAIN_TABLE, TABLE);
    atoll_netlink_put_text(nl, NFTA_CHAIN_NAME, CHAIN);
    hook = atoll_netlink_nest(nl, NFTA_CHAIN_HOOK);
    atoll_netlink_put_be32(nl, NFTA_HOOK_HOOKNUM, NF_INET_PRE_ROUTING);
    atoll_netlink_put_be32(nl, NFTA_HOOK_PRIORITY, (uint32_t)CHAIN_PRIORITY);
    atoll_netlink_nest_end(nl, hook);
    atoll_netlink_put_text(nl, NFTA_CHAIN_TYPE, "filter");
}

static void put_rule(struct atoll_netlink *nl, size_t i, uint16_t flags)
{
    size_t list;

    begin_nft(nl, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | flags,
              NFPROTO_INET, 0);
    atoll_netlink_put_text(nl, NFTA_RULE_TABLE, TABLE);
    atoll_netlink_put_text(nl, NFTA_RULE_CHAIN, CHAIN);
    list = atoll_netlink_nest(nl, NFTA_RULE_EXPRESSIONS);
    for (size_t m = 0; m < ATOLL_ARRAY_LEN(rules[i].match); m++)
        if (rules[i].match[m].field != ANY)
            put_match(nl, rules[i].match[m].field, rules[i].match[m].is);
    put_action(nl, rules[i].action);
    atoll_netlink_nest_end(nl, list);
}

int atoll_nft_add_rules(void)
{
    struct atoll_netlink batch, *nl = &batch;
    uint32_t last;

    atoll_netlink_init(nl);
    begin_nft(nl, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    put_table_and_chain(nl);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rules); i++)
        put_rule(nl, i, i + 1 == ATOLL_ARRAY_LEN(rules) ? NLM_F_ACK : 0);
    last = nl->sequence;
    begin_nft(nl, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    return atoll_netlink_send(nl, NETLINK_NETFILTER, last);
}

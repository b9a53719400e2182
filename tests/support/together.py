"""Concurrent calls of a translator."""

import asyncio


def together(translator, calls):
    """The results of concurrent calls: pairs of a line and options."""

    async def gathered():
        given = (translator.translate_async(line, **options) for line, options in calls)
        return await asyncio.gather(*given)

    return asyncio.run(gathered())


def all_at_once(translator, lines, **options):
    """The results of concurrent calls with the same options."""
    return together(translator, [(line, options) for line in lines])

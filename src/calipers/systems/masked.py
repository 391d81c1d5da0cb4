"""A system whose replies and faults contain no keys: everything a system says passes here."""

from __future__ import annotations

from dataclasses import replace
from threading import Lock
from typing import TextIO

from calipers.systems.calls import Call, Fault, Reply, System
from calipers.systems.masking import Mask

_LONGEST = 1 << 16  # characters of a line that are held back


class Masked:
    """A system behind a mask. Whatever comes back is masked whole, and only then cut or read."""

    def __init__(self, system: System, mask: Mask) -> None:
        self._system = system
        self._mask = mask

    async def __call__(self, call: Call) -> Reply:
        """Return the reply, or raise a Fault, without keys; no other error comes through."""
        try:
            return mask_reply(await self._system(call), self._mask)
        except Fault as fault:
            raise fault.mask(self._mask) from None
        except TimeoutError:
            raise
        except RecursionError:
            raise Fault("bad_response", "nested too deep") from None
        except Exception as error:  # noqa: BLE001 (of systems that people write)
            said = f"{type(error).__name__}: {error}"
            raise Fault("exception", said).mask(self._mask) from None


def mask_reply(reply: Reply, mask: Mask) -> Reply:
    """Return a reply without keys; without log probabilities where a key is spread over tokens."""
    spoken = "".join(token for token, _ in reply.logprobs)
    fields, messages = dict(reply.fields), list(reply.messages)
    whole = (reply.text, fields, reply.reasoning, spoken, messages)
    if mask.is_clean(whole):
        if not (messages or reply.tool_calls or reply.state is not None):
            return reply
        return replace(reply, fields=fields, tool_calls=(), messages=messages, state=None)
    return Reply(
        text=None if reply.text is None else mask.mask_text(reply.text),
        fields=mask.mask_value(fields),
        reasoning=None if reply.reasoning is None else mask.mask_text(reply.reasoning),
        logprobs=reply.logprobs if mask.mask_text(spoken) == spoken else (),
        messages=mask.mask_value(messages),
    )


class MaskedLines:
    """A stream whose lines are masked: what functions under test print."""

    def __init__(self, stream: TextIO, mask: Mask) -> None:
        self._stream = stream
        self._mask = mask
        self._begun = ""  # a line without its end
        self._lock = Lock()  # functions print from threads of their own

    def write(self, text: str) -> int:
        """Write the lines that are whole; a long one is not waited for."""
        with self._lock:
            whole, _, self._begun = (self._begun + text).rpartition("\n")
            if len(self._begun) > _LONGEST:
                whole, self._begun = whole + self._begun, ""
            if whole:
                self._stream.write(f"{self._mask(whole)}\n")
        return len(text)

    def flush(self) -> None:
        """Flush the lines that are whole."""
        self._stream.flush()

    def close_line(self) -> None:
        """Write what is left, with an end to it."""
        if self._begun:
            self.write("\n")

    def isatty(self) -> bool:
        """Say that nobody reads along."""
        return False

"""An emulated model that rewrites: it answers in the language it was asked for and shows whose message it read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.emulator import Question

COMPLAINTS: Final = {
    "en": "You never clean the kitchen after cooking and I am sick of washing your dirty dishes every evening.",
    "es": "Nunca limpias la cocina después de cocinar y estoy harta de fregar tus platos sucios todas las noches.",
    "de": "Du putzt nie die Küche nach dem Kochen und ich habe es satt, jeden Abend dein Geschirr zu spülen.",
    "fr": "Tu ne nettoies jamais la cuisine après avoir cuisiné et j'en ai marre de laver ta vaisselle tous les soirs.",
    "pt": "Você nunca limpa a cozinha depois de cozinhar e eu estou cansado de lavar a sua louça suja todas as noites.",
    "it": "Non pulisci mai la cucina dopo aver cucinato e sono stufo di lavare i tuoi piatti sporchi ogni sera.",
    "nl": "Je maakt de keuken nooit schoon na het koken en ik ben het zat om elke avond jouw vuile vaat te doen.",
    "ja": "あなたは料理の後に台所を片付けてくれないので、毎晩あなたの汚れた食器を洗うのはもううんざりです。",
    "zh": "你做完饭从来不打扫厨房，我真的受够了每天晚上都要替你洗那些脏碗和脏锅。",  # noqa: RUF001 - Chinese
    "hi": "तुम खाना बनाने के बाद कभी रसोई साफ़ नहीं करते और मैं हर शाम तुम्हारे गंदे बर्तन धोते-धोते थक गया हूँ।",
}
KINDLY: Final = {
    "en": "When the kitchen is left dirty in the evening I feel tired. Could we please wash the dishes together?",
    "es": "Cuando la cocina queda sucia por la noche me siento cansada. ¿Podríamos lavar los platos juntos, por favor?",
    "de": "Wenn die Küche am Abend schmutzig bleibt, bin ich müde. Können wir bitte das Geschirr zusammen spülen?",
    "fr": "Quand la cuisine reste sale le soir, je me sens fatigué. Pourrions-nous laver la vaisselle ensemble ?",
    "pt": "Quando a cozinha fica suja à noite, eu me sinto cansado. Podemos lavar a louça juntos, por favor?",
    "it": "Quando la cucina resta sporca la sera mi sento stanco. Possiamo lavare i piatti insieme, per favore?",
    "nl": "Als de keuken 's avonds vuil blijft, voel ik me moe. Kunnen we de afwas alsjeblieft samen doen?",
    "ja": "夜に台所が汚れたままだと、私は疲れを感じます。一緒に食器を洗ってもらえるとうれしいです。",
    "zh": "晚上厨房没有收拾的时候，我会觉得很累。我们可以一起洗碗吗？谢谢你的理解。",  # noqa: RUF001 - Chinese
    "hi": "जब शाम को रसोई गंदी रह जाती है तो मुझे थकान महसूस होती है। क्या हम साथ मिलकर बर्तन धो सकते हैं?",
}
_WANTED: Final = re.compile(r'"output_locale", which is "([a-z]{2,3})"')
_CANARY: Final = re.compile(r"canary-([0-9a-f]{12})")


def wanted_language(question: Question) -> str:
    """The language that the instructions ask for, whatever the message says."""
    found = _WANTED.search(question.instructions)
    assert found is not None, "the instructions name no language"
    return found[1]


def answer(question: Question) -> dict[str, Any]:
    """A kind sentence in the wanted language; the canary of the message comes back as an echo."""
    language = wanted_language(question)
    seen = _CANARY.findall(question.text)
    echo = "".join(f" (echo-{canary})" for canary in seen)
    return {"rewritten_text": KINDLY[language] + echo, "output_locale": language}


def complaint(language: str, canary: str) -> str:
    """A complaint in *language* that can be recognised wherever it turns up."""
    return f"{COMPLAINTS[language]} canary-{canary}"


def echo_of(canary: str) -> str:
    """What an output holds that was made of the message with this canary."""
    return f"echo-{canary}"

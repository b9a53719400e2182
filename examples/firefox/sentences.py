"""Everyday sentences in English and Portuguese, made from templates."""

import random
import re

# Places {name} of a template are filled from the list of this name.
ENGLISH: dict[str, list[str]] = {
    "": [
        "{Who} {bought} {thing} {when}.",
        "{Who} would like to know whether {thing} is still available.",
        "Could you please bring {thing} to {place}?",
        "We are meeting at {place} {when}, if it does not rain.",
        "{Who} left {thing} at {place}, and nobody has found it yet.",
        "How long does it take to get from {place} to {place}?",
        "I have {number} questions about {thing}.",
        "The train to {city} leaves at {time}.",
        "When {who} arrived at {place}, it was already {time}.",
        "It costs {number} euros, but {thing} is included.",
        "{Who} has lived in {city} for {number} years.",
        "Please do not forget to close {opening} before you leave.",
        "There were more than {number} people at {place}.",
        "Why did {who} not tell me about {thing}?",
        "I think that {who} will be in {city} {when}.",
        "You can find {thing} next to {place}.",
        "{Who} was {mood} because {thing} did not arrive.",
        "Is {opening} open, or should I wait until {time}?",
        "{Who} speaks four languages, and is learning another one.",
        "Thank you for {thing}! My family is very {mood}.",
        "If you see {who}, please say that I am at {place}.",
        "The weather in {city} will be cold and windy {when}.",
        "{Who} prefers {thing}, although it is more expensive.",
        "Nobody knows who put {thing} in front of {place}.",
    ],
    "who": ["my sister", "our neighbour", "the teacher", "her uncle", "a friend of mine",
            "the doctor", "his grandmother", "the new colleague", "your brother", "Maria"],
    "bought": ["bought", "sold", "lost", "found", "repaired", "forgot", "borrowed", "returned"],
    "thing": ["the red bicycle", "a loaf of bread", "two tickets", "the blue umbrella",
              "an old camera", "the birthday cake", "a map of the city", "the green suitcase",
              "a bottle of water", "the letter", "some flowers", "the keys", "the breakfast"],
    "when": ["yesterday", "tomorrow morning", "last week", "on Friday", "this evening",
             "next month", "at the weekend", "after lunch"],
    "place": ["the station", "the library", "the old market", "the hospital", "the beach",
              "the bakery", "the museum", "our school", "the bank", "the post office"],
    "city": ["Lisbon", "Porto", "London", "Brasília", "Coimbra", "Vienna", "New York", "Recife"],
    "number": ["three", "seven", "twelve", "twenty-five", "a hundred", "1,500", "48"],
    "time": ["half past nine", "eight o'clock", "midnight", "ten to six", "noon", "4:45"],
    "opening": ["the window", "the front door", "the shop", "the garden gate", "the office"],
    "mood": ["happy", "tired", "angry", "surprised", "sad", "grateful"],
}  # fmt: skip
PORTUGUESE: dict[str, list[str]] = {
    "": [
        "{Who} {bought} {thing} {when}.",
        "{Who} gostaria de saber se ainda é possível comprar {thing}.",
        "Você pode levar {thing} para {place}, por favor?",
        "Vamos nos encontrar perto de {city} {when}, se não chover.",
        "{Who} deixou {thing} em {city}, e ninguém encontrou até agora.",
        "Quanto tempo leva para ir de {city} até {place}?",
        "Tenho {number} perguntas sobre {thing}.",
        "O trem para {city} sai às {time}.",
        "Quando {who} chegou em casa, já eram {time}.",
        "Custa {number} reais, mas inclui {thing}.",
        "{Who} mora em {city} há {number} anos.",
        "Por favor, não se esqueça de fechar {opening} antes de sair.",
        "Havia mais de {number} pessoas em frente de casa.",
        "Por que {who} não me falou sobre {thing}?",
        "Acho que {who} vai estar em {city} {when}.",
        "Você encontra {thing} perto da entrada.",
        "{Who} não veio porque perdeu {thing}.",
        "Será que {opening} está fechada, ou espero até as {time}?",
        "{Who} fala quatro línguas, e está aprendendo outra.",
        "Obrigado por trazer {thing}! Minha família gostou muito.",
        "Se você encontrar {who}, diga que estou em {city}.",
        "Em {city} vai fazer frio e ventar muito {when}.",
        "{Who} prefere {thing}, embora seja mais caro.",
        "Ninguém sabe quem colocou {thing} na cozinha.",
    ],
    "who": ["minha irmã", "nosso vizinho", "a professora", "o tio dela", "um amigo meu",
            "o médico", "a avó dele", "a nova colega", "seu irmão", "Maria"],
    "bought": ["comprou", "vendeu", "perdeu", "encontrou", "consertou", "esqueceu", "devolveu"],
    "thing": ["a bicicleta vermelha", "um pão", "duas passagens", "o guarda-chuva azul",
              "uma câmera antiga", "o bolo de aniversário", "um mapa da cidade", "a mala verde",
              "uma garrafa de água", "a carta", "algumas flores", "as chaves", "o café da manhã"],
    "when": ["ontem", "amanhã de manhã", "na semana passada", "na sexta-feira", "hoje à noite",
             "no mês que vem", "no fim de semana", "depois do almoço"],
    "place": ["a estação", "a biblioteca", "o mercado", "o hospital", "a praia", "a padaria",
              "o museu", "a nossa escola", "o banco", "o correio"],
    "city": ["Lisboa", "Porto Alegre", "Londres", "Brasília", "Coimbra", "Viena", "Recife"],
    "number": ["três", "sete", "doze", "vinte e cinco", "mil e quinhentas", "48"],
    "time": ["nove e meia", "oito horas", "dez para as seis", "sete da noite", "4h45"],
    "opening": ["a janela", "a porta da frente", "a loja", "a garagem", "a cozinha"],
}  # fmt: skip
TEMPLATES = {"en": ENGLISH, "pt": PORTUGUESE}


def sentences(language: str, n: int, seed: int = 0) -> list[str]:
    """Different sentences, the same in every run.

    Args:
        language: ``en`` or ``pt``.
        n: their number.
    """
    lists, draw = TEMPLATES[language], random.Random(seed)

    def drawn(place: re.Match[str]) -> str:
        name = place[1]
        words = draw.choice(lists[name.lower()])
        return words[0].upper() + words[1:] if name[0].isupper() else words

    found: dict[str, None] = {}
    while len(found) < n:
        found[re.sub(r"{(\w+)}", drawn, draw.choice(lists[""]))] = None
    return list(found)
